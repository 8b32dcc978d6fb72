// solve_columns(): a Solve (solve_impl.hpp) for each column, in lockstep.
#pragma once

#include "block_search.hpp"
#include "lockstep.hpp"
#include "solve_impl.hpp"

#include <tacit/krylov/columns.hpp>

namespace tacit::krylov {

namespace {

/// Why the columns are solved one after another; empty where they need not be.
template <Scalar T>
std::string why_alone(const op::Operator<T, Host>& A, const op::Operator<T, Host>* P, int columns,
                      const Options& options) {
  if (columns == 1) return "there is one column";
  if (options.engine == Engine::tasks) return "engine \"tasks\" runs one solve at a time";
  if (options.powers == Powers::kernel) return "a matrix powers kernel works on one column";
  if (traits_of(options.method).parameters == Traits::Parameters::given && A.sweeps_at_once() > 1)
    return message("the ", A.name(), " operator does several steps of ", to_string(options.method),
                   " at once for one column only");
  if (!traits_of(options.method).shares_search && !gains_by_blocks(A) && !(P && gains_by_blocks(*P)))
    return "on one rank a product with several columns saves nothing where the operator reads little beside them";
  return {};
}

/// The search that columns share; null where each has its own.
template <Scalar T>
std::unique_ptr<BlockSearch<T>> make_search(const Options& options, const layout::Space& space, Lockstep& lockstep) {
  if (options.method == Method::block_cg) return make_block_cg_search<T>(space, lockstep);
  if (options.method == Method::block_gmres)
    return make_block_gmres_search<T>(space, lockstep,
                                      options.orthogonalisation.value_or(Orthogonalisation::automatic));
  return nullptr;
}

/// x := column c of `all`, or back. Local; one pass.
template <Scalar T>
void take_column(const Vector<T, Host>& all, int c, Vector<T, Host>& x) {
  const std::size_t k = std::size_t(all.columns());
  for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = all.data()[i * k + std::size_t(c)];
}
template <Scalar T>
void put_column(const Vector<T, Host>& x, int c, Vector<T, Host>& all) {
  const std::size_t k = std::size_t(all.columns());
  for (std::size_t i = 0; i < x.size(); ++i) all.data()[i * k + std::size_t(c)] = x.data()[i];
}

template <Scalar T>
class ManySolves {
  using Operator = op::Operator<T, Host>;

 public:
  ManySolves(const Operator& A, const Operator* P, const Vector<T, Host>& B, Vector<T, Host>& X, const Options& options,
             bool hermitian, const NullSpace<T, Host>* null_space)
      : A_(A), P_(P), B_(B), X_(X), options_(options), hermitian_(hermitian), null_(null_space) {
    options_.schedule = {};
    if (options_.engine == Engine::thread) options_.engine = Engine::polling;  // one for all columns
  }

  ColumnReports run(const Options& given) {
    const auto& comm = A_.range().comm();
    const double from = wall_time();
    const auto before = comm.counters();
    const auto engine = given.engine == Engine::thread ? comm.start_engine() : nullptr;
    const op::Schedule schedule = A_.schedule();
    if (given.schedule.how != op::Schedule::How::automatic) A_.use(given.schedule);
    reports_.columns.resize(std::size_t(B_.columns()));
    reports_.alone = why_alone(A_, P_, B_.columns(), options_);
    if (reports_.alone.empty()) together();
    else one_by_one();
    A_.use(schedule);
    const auto spent = comm.counters() - before;
    auto& counts = reports_.counts;
    for (auto& r : reports_.columns) {
      counts.operator_applies += r.counts.operator_applies;
      counts.preconditioner_applies += r.counts.preconditioner_applies;
      r.counts = {0, r.counts.operator_applies, r.counts.preconditioner_applies, 0, 0, 0};
    }
    counts.reductions = spent.reductions;
    counts.exchanges = spent.exchanges;
    std::vector<double> seconds{explain_seconds_, wall_time() - from - explain_seconds_};
    for (const auto& r : reports_.columns) seconds.push_back(r.seconds);
    comm.all_max(seconds);
    reports_.explain_seconds = seconds[0], reports_.seconds = seconds[1];
    for (std::size_t c = 0; c < reports_.columns.size(); ++c) reports_.columns[c].seconds = seconds[c + 2];
    counts.messages = comm.all_sum(spent.messages);
    counts.bytes = comm.all_sum(spent.bytes);
    return std::move(reports_);
  }

 private:
  void together() {
    const Traits& traits = traits_of(options_.method);
    const int most = !traits.shares_search ? most_columns_together
                     : traits.cycles       ? most_columns_of_a_cycle
                                           : most_columns_of_a_block;
    reports_.together = std::min(B_.columns(), most);
    Lockstep lockstep(A_.range().comm(), reports_.together);
    BlockProduct<T> products(A_, lockstep);
    std::optional<BlockProduct<T>> preconditions;
    if (P_) preconditions.emplace(*P_, lockstep);
    const auto search = make_search<T>(options_, A_.range(), lockstep);
    std::deque<std::function<void()>> columns;
    for (int c = 0; c < B_.columns(); ++c)
      columns.emplace_back([&, c] {
        const OfColumn<T> A(A_, products, lockstep);
        std::optional<OfColumn<T>> P;
        if (P_) P.emplace(*P_, *preconditions, lockstep);
        if (search) search->count_for(A, P ? &*P : nullptr);
        solve(A, P ? &*P : nullptr, c, search.get(), [&](const std::function<void()>& f) { lockstep.outside(f); });
      });
    lockstep.run(std::move(columns));
  }
  void one_by_one() {
    for (int c = 0; c < B_.columns(); ++c) solve(A_, P_, c, nullptr, [](const std::function<void()>& f) { f(); });
    if (traits_of(options_.method).shares_search && B_.columns() > 1)
      for (auto& r : reports_.columns)
        r.warnings.push_back(
            message("each column was solved by ", to_string(classical_of(options_.method)), ": ", reports_.alone));
  }
  template <class Outside>
  void solve(const Operator& A, const Operator* P, int c, BlockSearch<T>* search, const Outside& outside) {
    Vector<T, Host> b(A.range()), x(A.domain());
    take_column(B_, c, b);
    take_column(X_, c, x);
    Options own = options_;
    if (options_.callback)
      own.callback = [this, c, &outside](const State& state) {
        State mine = state;
        mine.column = c;
        bool stop = false;
        outside([&] { stop = options_.callback(mine); });
        return stop;
      };
    bool explained = false;
    own.before_explaining = [&] {
      explained = true;
      if (explaining_++ == 0) explain_begin_ = wall_time();
    };
    const Role role{.solves_of_call = B_.columns(), .alone = false};
    reports_.columns[std::size_t(c)] = Solve<T, Host>(A, P, b, x, own, role, hermitian_, null_, search).run();
    if (explained && --explaining_ == 0) explain_seconds_ += wall_time() - explain_begin_;
    put_column(x, c, X_);
  }

  const Operator& A_;
  const Operator* P_;
  const Vector<T, Host>& B_;
  Vector<T, Host>& X_;
  Options options_;
  bool hermitian_;
  const NullSpace<T, Host>* null_;
  ColumnReports reports_;
  int explaining_ = 0;  // columns whose failure is being looked into
  double explain_begin_ = 0, explain_seconds_ = 0;
};

}  // namespace

template <Scalar T>
ColumnReports solve_columns(const op::Operator<T, Host>& A, const op::Operator<T, Host>* P, const Vector<T, Host>& B,
                            Vector<T, Host>& X, const Options& options, bool hermitian,
                            const NullSpace<T, Host>* null_space) {
  if (P) A.range().comm().join(P->range().comm());  // before this thread's turn
  return comm::collective(A.range().comm(), [&] {
    check_arguments(A, P, B, X, options, null_space);
    require(B.columns() == X.columns(), "B has ", B.columns(), " columns and X ", X.columns());
    return ManySolves<T>(A, P, B, X, options, hermitian, null_space).run(options);
  });
}

}  // namespace tacit::krylov
