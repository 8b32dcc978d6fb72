#pragma once

#include <tacit/op/noted.hpp>
#include <tacit/precond/make.hpp>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace tacit::precond {

/// y = sum_i R~_i^T S_i R_i x. Block i is a run of rows of one rank (`blocks` of them a rank); R_i takes its rows and
/// those up to `overlap` edges away in the graph of A, R~_i the block's own, and S_i is the local solver made for
/// R_i A R_i^T. Restricted additive Schwarz: Cai and Sarkis (1999), doi 10.1137/S106482759732678X, Algorithm RAS. Not
/// `restricted`: R_i in place of R~_i, additive Schwarz as of Dryja and Widlund (1987), Hermitian definite where S_i
/// is.
///
/// All S_i are one operator, made for the block diagonal matrix of all R_i A R_i^T, which is spread over the ranks like
/// A. Construction is collective: rows of A travel once, and for each level of overlap there is one exchange. An apply:
/// one halo exchange of `overlap` levels (not restricted: and one back), an apply of S, 4 vectors of the extended
/// length. Vectors kept: 2 of that length. The adjoint exists where that of S does. Error(usage): a matrix that is not
/// square or has NaN or Inf; what the local solver says.
template <Scalar T, Memory M>
class Schwarz final : public op::Operator<T, M>, public op::Noted {
 public:
  Schwarz(const op::Csr<T, M>& A, Options options) : op::Operator<T, M>(A.domain(), A.range()) {
    comm::collective(A.range().comm(), [&] {
      require(A.range() == A.domain(), "schwarz needs a square matrix with rows and columns spread alike; this one is ",
              A.range().size(), " by ", A.domain().size());
      require(A.fault().empty(), "schwarz: ", A.fault());
      overlap_ = std::exchange(options.overlap, {}).value_or(1);
      restricted_ = std::exchange(options.restricted, {}).value_or(true);
      const Kind solver = std::exchange(options.solver, {}).value_or(Kind::ilu0);
      extend(A, std::exchange(options.blocks, {}).value_or(1));
      try {
        solver_ = make<T, M>(to_string(solver), *matrix_, options);
      } catch (const Error& e) {
        throw Error(e.kind(), message("local solver of schwarz: ", e.what(),
                                      "; its rows are those of all overlapping blocks, one below the other"));
      }
      if (const auto* noted = dynamic_cast<const op::Noted*>(solver_.get()))
        note_ = noted->note(), doubtful_ = noted->is_doubtful();
    });
  }
  std::string name() const override {
    return message(restricted_ ? "restricted " : "", "additive Schwarz (overlap ", overlap_, ", ", solver_->name(),
                   ")");
  }
  bool has_adjoint() const override { return solver_->has_adjoint(); }
  bool as_tasks() const override { return solver_->as_tasks(); }
  op::Cost cost() const override {
    op::Cost total = all_->cost();
    for (const op::Cost& c : {solver_->cost(), (restricted_ ? own_ : all_)->adjoint_cost()}) {
      total.flops += c.flops, total.bytes += c.bytes;
      total.messages += c.messages, total.message_bytes += c.message_bytes;
    }
    return total;
  }

 protected:
  int begin(const op::Vector<T, M>&, op::Vector<T, M>&, bool) const override { return 0; }
  void finish(const op::Vector<T, M>& x, op::Vector<T, M>& y, bool adjoint, int) const override {
    if (!extended_ || extended_->first.columns() != x.columns()) {
      using Extended = op::Vector<T, M>;
      extended_ = std::make_unique<std::pair<Extended, Extended>>(Extended(matrix_->domain(), x.columns()),
                                                                  Extended(matrix_->domain(), x.columns()));
    }
    auto& [right, solution] = *extended_;
    const auto& own = restricted_ ? *own_ : *all_;
    (adjoint ? own : *all_).apply(x, right);
    if (adjoint) solver_->apply_adjoint(right, solution);
    else solver_->apply(right, solution);
    (adjoint ? *all_ : own).apply_adjoint(solution, y);
  }

 private:
  using Rows = op::Rows<T>;

  /// Rows of A: this rank's, and those that have been fetched.
  class Known {
   public:
    Known(const layout::Space& space, const Rows& own) : space_(space), own_(own) {
      for (Local i = 0; i < space.local_size(); ++i) where_[space.begin() + i] = {&own, std::size_t(i)};
    }
    bool has(Global g) const { return where_.contains(g); }
    template <class F>
    void row(Global g, F&& f) const {
      const auto& [set, i] = where_.at(g);
      for (Global k = set->start[i]; k < set->start[i + 1]; ++k)
        f(set->column[std::size_t(k)], set->value[std::size_t(k)]);
    }
    void fetch(std::vector<Global> needed) {
      sort(needed);
      fetched_.push_back(std::make_unique<Rows>(op::rows_of_others<T>(space_, own_, needed)));
      for (std::size_t i = 0; i < needed.size(); ++i) where_[needed[i]] = {fetched_.back().get(), i};
    }

   private:
    const layout::Space& space_;
    const Rows& own_;
    std::vector<std::unique_ptr<Rows>> fetched_;
    std::unordered_map<Global, std::pair<const Rows*, std::size_t>> where_;
  };

  /// Makes matrix_, all_ and own_.
  void extend(const op::Csr<T, M>& A, int blocks) {
    const auto& space = A.range();
    const Rows rows = A.rows();
    const Local n = space.local_size();
    Known known(space, rows);
    const int parts = std::clamp<int>(blocks, 1, std::max<Local>(n, 1));
    const auto first = [&](int b) { return space.begin() + n / parts * b + std::min<Local>(b, n % parts); };
    std::vector<std::vector<Global>> block(static_cast<std::size_t>(parts)), outermost;
    for (int b = 0; b < parts; ++b)
      for (Global g = first(b); g < first(b + 1); ++g) block[b].push_back(g);
    outermost = block;
    const auto is_empty = [](const std::vector<Global>& set) { return set.empty(); };
    for (int level = 0; level < overlap_; ++level) {
      if (space.comm().all(std::all_of(outermost.begin(), outermost.end(), is_empty))) break;  // no block can grow
      std::vector<Global> needed;
      for (int b = 0; b < parts; ++b) {
        std::vector<Global> found;
        for (const Global g : outermost[b])
          known.row(g, [&](Global c, T) {
            if (!std::binary_search(block[b].begin(), block[b].end(), c)) found.push_back(c);
          });
        sort(found);
        for (const Global c : found)
          if (!known.has(c)) needed.push_back(c);
        const auto before = std::ptrdiff_t(block[b].size());
        block[b].insert(block[b].end(), found.begin(), found.end());
        std::inplace_merge(block[b].begin(), block[b].begin() + before, block[b].end());
        outermost[b] = std::move(found);
      }
      known.fetch(std::move(needed));
    }

    std::size_t length = 0;
    for (const auto& b : block) length += b.size();
    const auto lengths = space.comm().all_gather(Global(length));
    const auto extended = layout::Space::distributed(space.comm(), layout::Partition::of_counts(lengths));
    Rows matrix, all, own;
    const auto add = [](Rows& to, Global c, T value) { to.column.push_back(c), to.value.push_back(value); };
    Global begin = extended.begin();
    for (int b = 0; b < parts; ++b) {
      for (const Global g : block[b]) {
        known.row(g, [&](Global c, T value) {
          const auto at = std::lower_bound(block[b].begin(), block[b].end(), c);
          if (at != block[b].end() && *at == c) add(matrix, begin + (at - block[b].begin()), value);
        });
        add(all, g, T(1));
        if (g >= first(b) && g < first(b + 1)) add(own, g, T(1));
        for (Rows* made : {&matrix, &all, &own}) made->start.push_back(Global(made->column.size()));
      }
      begin += Global(block[b].size());
    }
    matrix_ = std::make_unique<op::Csr<T, M>>(extended, extended, std::move(matrix));
    all_ = std::make_unique<op::Csr<T, M>>(extended, space, std::move(all));
    if (restricted_) own_ = std::make_unique<op::Csr<T, M>>(extended, space, std::move(own));
  }
  static void sort(std::vector<Global>& set) {
    std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
  }

  int overlap_ = 1;
  bool restricted_ = true;
  std::unique_ptr<op::Csr<T, M>> matrix_;     // block diagonal, of all R_i A R_i^T
  std::unique_ptr<op::Csr<T, M>> all_, own_;  // R and R~, one block below the other
  std::unique_ptr<op::Operator<T, M>> solver_;
  mutable std::unique_ptr<std::pair<op::Vector<T, M>, op::Vector<T, M>>> extended_;
};

template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make_schwarz(const op::Csr<T, M>& A, const Options& options) {
  return std::make_unique<Schwarz<T, M>>(A, options);
}

}  // namespace tacit::precond
