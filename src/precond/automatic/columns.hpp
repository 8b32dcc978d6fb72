// Columns: a solve with several right-hand sides by auto.
#pragma once

#include "attempts.hpp"

#include <tacit/krylov/columns.hpp>

#include <vector>

namespace tacit::precond {

/// A solve with several right-hand sides.
template <Scalar T>
class Automatic<T>::Columns {
  using Reason = krylov::Reason;

 public:
  using Vector = layout::Vector<T, Host>;
  Columns(Automatic& own, const Vector& B, Vector& X, const krylov::Options& options,
          const krylov::NullSpace<T, Host>* null_space)
      : own_(own), B_(B), X_(X), options_(options), null_(null_space), k_(B.columns()), b_(B.space()), x_(X.space()) {}

  krylov::ColumnReports run() {
    const auto& comm = own_.A_.range().comm();
    const double from = wall_time();
    const auto before = comm.counters();
    all_.columns.resize(std::size_t(k_));
    choose(0);
    std::vector<int> left;
    for (int c = 1; c < k_; ++c) left.push_back(c);
    if (own_.kept_ >= 0 && k_ > 1) left = together(left);
    else all_.alone = "no candidate solved the first column";
    for (const int c : left) choose(c);
    const auto spent = comm.counters() - before;
    for (auto& r : all_.columns) {
      all_.counts.operator_applies += r.counts.operator_applies;
      all_.counts.preconditioner_applies += r.counts.preconditioner_applies;
      r.counts = {0, r.counts.operator_applies, r.counts.preconditioner_applies, 0, 0, 0};
    }
    all_.counts.reductions = spent.reductions;
    all_.counts.exchanges = spent.exchanges;
    all_.counts.messages = comm.all_sum(spent.messages);
    all_.counts.bytes = comm.all_sum(spent.bytes);
    all_.explain_seconds += explain_seconds_;
    all_.seconds = comm.all_max(wall_time() - from) - own_.setup_seconds_ - all_.explain_seconds;
    return std::move(all_);
  }

 private:
  T& at(Vector& of, std::size_t i, int c) { return of.data()[i * std::size_t(of.columns()) + std::size_t(c)]; }
  T at(const Vector& of, std::size_t i, int c) { return of.data()[i * std::size_t(of.columns()) + std::size_t(c)]; }
  /// Column `from` of one, into column `to` of another. Local.
  void move(const Vector& one, int from, Vector& other, int to) {
    const std::size_t n = std::size_t(one.space().local_size());
    for (std::size_t i = 0; i < n; ++i) at(other, i, to) = at(one, i, from);
  }

  krylov::Options of_column(int c) const {
    krylov::Options o = options_;
    if (options_.callback)
      o.callback = [call = options_.callback, c](const krylov::State& s) {
        auto mine = s;
        mine.column = c;
        return call(mine);
      };
    return o;
  }
  void choose(int c) {
    move(B_, c, b_, 0);
    move(X_, c, x_, 0);
    auto& report = all_.columns[std::size_t(c)] = Attempts(own_, b_, x_, of_column(c), null_, k_).run();
    explain_seconds_ += report.explain_seconds;
    move(x_, 0, X_, c);
  }

  /// Solves these columns with the candidate that is kept; returns those that it has not solved.
  std::vector<int> together(const std::vector<int>& columns) {
    const Candidate& kept = own_.candidates_[std::size_t(own_.kept_)];
    Vector B(B_.space(), int(columns.size())), X(X_.space(), int(columns.size()));
    for (std::size_t i = 0; i < columns.size(); ++i) move(B_, columns[i], B, int(i)), move(X_, columns[i], X, int(i));
    auto o = with_candidate(kept, options_);
    if (options_.callback)
      o.callback = [this, &columns](const krylov::State& s) {
        auto mine = s;
        mine.column = columns[std::size_t(s.column)];
        return options_.callback(mine);
      };
    auto found = krylov::solve_columns<T>(own_.A_, own_.kept_precond_.get(), B, X, o, own_.hermitian_, null_);
    all_.together = found.together, all_.alone = found.alone;
    all_.explain_seconds = found.explain_seconds;
    std::vector<int> left;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      auto& r = found.columns[i];
      // Stopped by the user, not finite or damaged: another preconditioner would not help.
      const bool over =
          r.converged() || r.reason == Reason::stopped || r.reason == Reason::non_finite || r.reason == Reason::damaged;
      if (over) {
        r.choice = message("auto: ", r.method, r.precond == "none" ? "" : message(" with ", r.precond),
                           ", as for the first column");
        move(X, int(i), X_, columns[i]);
        all_.columns[std::size_t(columns[i])] = std::move(r);
      } else {
        left.push_back(columns[i]);
      }
    }
    return left;
  }

  Automatic& own_;
  const Vector& B_;
  Vector& X_;
  krylov::Options options_;
  const krylov::NullSpace<T, Host>* null_;
  int k_;
  Vector b_, x_;
  krylov::ColumnReports all_;
  double explain_seconds_ = 0;  // of columns that chose for themselves
};

}  // namespace tacit::precond
