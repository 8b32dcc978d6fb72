// BlockSearch: columns that share one search space. Each is a solve of its own in a fiber (columns_impl.hpp); they meet
// here once an iteration, and the step of the block is made when all are here.
#pragma once

#include "lockstep.hpp"

#include <tacit/krylov/options.hpp>
#include "krylov/workspace.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tacit::krylov {

/// Columns that enter while a search is under way wait for its end; then those that have the same operators begin the
/// next one together. A column that leaves takes its d with it, and its share of the search space stays with the rest.
template <Scalar T>
class BlockSearch : public Shared {
  using Operator = op::Operator<T, Host>;

 public:
  /// A column in a search.
  struct Member {
    const Run<T, Host>& run;
    int seat = 0, place = 0;  ///< in the lockstep; its column of the block
    double norm = 0;          ///< of its residual, as the recurrence has it
    double gain = 0;          ///< what the last step has taken from its error, squared, in the norm of A
    bool in = false;
    // Of cycles.
    double goal = 0;        ///< its norm where it has converged
    int cycle = 0;          ///< it leaves after so many steps
    bool flexible = false;  ///< P changes from call to call: its results are kept
    bool ended = false;     ///< no further step is possible
  };
  /// A scalar that does not allow the step; `scalar` is null where there is none.
  struct Breakdown {
    const char* scalar = nullptr;
    double value = 0;
    const char* meaning = "";
  };

  explicit BlockSearch(Lockstep& lockstep) : lockstep_(lockstep) {}
  virtual ~BlockSearch() = default;
  bool waits_for_all() const override { return true; }

  /// For the calling column: the operators that count its products and applies of P. An apply to the block counts as
  /// one for each column in the search.
  void count_for(const Operator& A, const Operator* P) {
    const auto seat = std::size_t(lockstep_.seat());
    if (counters_.size() <= seat) counters_.resize(seat + 1);
    counters_[seat] = {&A, P};
  }
  /// Blocks until the column is in a search; its norm is that of its residual then.
  void enter(Member& own) {
    own.seat = lockstep_.seat();
    waiting_.push_back(&own);
    while (!own.in) lockstep_.wait_for(*this);
  }
  /// Blocks until a step of the block has been made; where it was not possible, what stood against it.
  const Breakdown& step(Member&) {
    lockstep_.wait_for(*this);
    return breakdown_;
  }
  /// d := the column's part. Ends its part in the search.
  void leave(Member& own) {
    column(own, own.run.d.data());
    members_.erase(std::find(members_.begin(), members_.end(), &own));
    left();
  }
  /// x := the d of this column so far. Local.
  virtual void column(const Member& of, T* x) = 0;
  /// max |r_i| over the column's residual. Collective.
  virtual double largest_of(const Member& of) = 0;

  void serve(std::span<const int>) override {
    if (members_.empty()) begin_next();
    else if (!breakdown_.scalar) breakdown_ = advance();
  }

 protected:
  /// Begins with d = 0 and the residuals of members(); sets their norms. Collective.
  virtual void begin() = 0;
  /// A step of the block; sets norms and gains. Collective.
  virtual Breakdown advance() = 0;
  /// A column has left.
  virtual void left() {}

  const std::vector<Member*>& members() const { return members_; }
  /// The run whose operators serve the block. They are those of the other members times 2^(exponent of these).
  const Run<T, Host>& leader() const { return members_.front()->run; }
  /// Counts an apply to so many columns: one for each member but the leader, whose operators have counted it.
  void count(bool of_P, int columns) const {
    for (const Member* m : std::span(members_).first(std::min(members_.size(), std::size_t(columns)))) {
      if (m == members_.front()) continue;
      const auto [A, P] = counters_[std::size_t(m->seat)];
      (!of_P ? A : P ? P : m->run.P)->count_apply();  // a fallback's P is the column's own
    }
  }

 private:
  void begin_next() {
    const auto same = [&](const Run<T, Host>& run) {
      const auto& first = waiting_.front()->run;
      return run.negated == first.negated && !run.P == !first.P && (!run.P || run.P->name() == first.P->name());
    };
    std::vector<Member*> rest;
    std::sort(waiting_.begin(), waiting_.end(), [](const Member* a, const Member* b) { return a->seat < b->seat; });
    for (Member* m : waiting_) (same(m->run) ? members_ : rest).push_back(m);
    waiting_ = std::move(rest);
    for (std::size_t i = 0; i < members_.size(); ++i) members_[i]->in = true, members_[i]->place = int(i);
    breakdown_ = {};
    begin();
  }

  Lockstep& lockstep_;
  std::vector<Member*> members_, waiting_;
  Breakdown breakdown_;
  struct Counters {
    const Operator *A = nullptr, *P = nullptr;
  };
  std::vector<Counters> counters_;  // by seat
};

/// Of block-cg and block-gmres (methods/block_cg.hpp, block_gmres.hpp), for vectors of this space.
template <Scalar T>
std::unique_ptr<BlockSearch<T>> make_block_cg_search(const layout::Space& space, Lockstep& lockstep);
template <Scalar T>
std::unique_ptr<BlockSearch<T>> make_block_gmres_search(const layout::Space& space, Lockstep& lockstep,
                                                        Orthogonalisation how);

}  // namespace tacit::krylov
