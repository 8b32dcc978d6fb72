#include "product_rows.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>
#include "op/triple_product.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace tacit::op {

using detail::Fetched;
using detail::Numbering;

namespace {

/// Where each rank's values begin, over all ranks.
std::vector<Global> offsets_of(const comm::Communicator& comm, std::size_t own) {
  const auto counts = comm.all_gather(Global(own));
  std::vector<Global> offsets{0};
  for (const Global n : counts) offsets.push_back(offsets.back() + n);
  return offsets;
}

}  // namespace

template <Scalar T>
Global FetchedValues<T>::offset(const comm::Communicator& comm, std::size_t own) {
  return offsets_of(comm, own)[std::size_t(comm.rank())];
}

template <Scalar T>
FetchedValues<T>::FetchedValues(const comm::Communicator& comm, std::size_t own, std::vector<Global> needed) {
  if (comm.size() == 1) return;
  (void)checked_cast<Local>(own, "the number of values that a rank gives");
  auto ghosts = needed;
  detail::sort_unique(ghosts);
  from_.reserve(needed.size());
  for (const Global k : needed)
    from_.push_back(Local(std::lower_bound(ghosts.begin(), ghosts.end(), k) - ghosts.begin()));
  pattern_ =
      std::make_shared<const comm::Pattern>(comm::Pattern::build(comm, offsets_of(comm, own), std::move(ghosts)));
  exchange_ = std::make_unique<comm::Exchange>(comm, pattern_, sizeof(T));
}

/// What is known while a plan is made, and not after.
template <Scalar T>
struct TripleProductPlan<T>::Draft {
  const Rows<T>&Q, &A, &P, &C;
  const Space &inner, &columns;
  Fetched<double> fetched{};          // with numbers of entries as values
  std::optional<Numbering> number{};  // of columns of P
  std::vector<Local> P_column{};      // as numbers
  std::vector<Local> AP_column{};     // of rows as they stand in blocks
  std::vector<Global> AP_start{};     // by row
  std::vector<Global> target_start{};
  Global targets = 0;
};

template <Scalar T>
std::optional<TripleProductPlan<T>> TripleProductPlan<T>::make(const Rows<T>& Q, const Rows<T>& A, const Rows<T>& P,
                                                               bool Q_is_P, const Rows<T>& C, const Space& inner,
                                                               const Space& columns, Global most) {
  const Span span("plan of a triple product", "op");
  TripleProductPlan plan;
  Draft draft{Q, A, P, C, inner, columns};
  plan.rows_ = A.count(), plan.same_ = Q_is_P;
  if (!plan.fetch_rows(draft, std::min(most, most_planned_entries))) return {};
  plan.number_entries(draft);
  plan.cut_blocks(draft);
  plan.place_sums(draft);
  plan.place_targets(draft);
  return plan;
}

/// Brings the rows of other ranks that products here need. False, on all ranks, where entries are too many.
template <Scalar T>
bool TripleProductPlan<T>::fetch_rows(Draft& d, Global most) {
  const auto& comm = d.inner.comm();
  const std::size_t of_A = d.A.column.size(), of_P = d.P.column.size(), of_Q = d.Q.column.size();
  const std::size_t own = of_A + of_P + (same_ ? 0 : of_Q);  // values that a rank gives
  if (comm.all_max(Global(comm.size() > 1 ? own : std::max(of_P, of_Q))) > most) return false;
  if (comm.size() == 1) return true;
  const Global first = FetchedValues<T>::offset(comm, own), first_of_P = first + Global(of_A);
  const auto P_numbers = with_numbers(d.P, first_of_P);
  const auto Q_numbers = same_ ? P_numbers : with_numbers(d.Q, first_of_P + Global(of_P));
  auto& fetched = d.fetched = detail::fetch(Q_numbers, with_numbers(d.A, first), d.inner, P_numbers, d.columns);
  fetched_A_ = fetched.A.column.size(), fetched_Q_ = fetched.Q.column.size(), fetched_P_ = fetched.P.column.size();
  if (comm.all_max(Global(std::max(of_P, of_Q) + fetched_A_ + fetched_Q_ + fetched_P_)) > most) return false;
  std::vector<Global> needed;
  for (const auto* rows : {&fetched.A, &fetched.Q, &fetched.P})
    for (const double k : rows->value) needed.push_back(Global(k));
  fetched_ = FetchedValues<T>(comm, own, std::move(needed));
  return true;
}

/// Row starts and columns, as numbers of this rank: own rows, then fetched ones.
template <Scalar T>
void TripleProductPlan<T>::number_entries(Draft& d) {
  const auto& fetched = d.fetched;
  const Space& columns = d.columns;
  others_ = fetched.row_of_P;
  const auto append_starts = [](const std::vector<Global>& from, auto& to) {
    using Start = typename std::remove_reference_t<decltype(to)>::value_type;
    const Start before = to.back();
    for (std::size_t i = 1; i < from.size(); ++i) to.push_back(before + Start(from[i]));
  };
  const auto append_columns = [](const exec::Buffer<Global>& from, auto&& number, std::vector<Local>& to) {
    std::transform(from.begin(), from.end(), std::back_inserter(to), number);
  };
  const Numbering row(d.inner, others_);
  A_start_ = d.A.start, append_starts(fetched.A.start, A_start_);
  A_column_.reserve(d.A.column.size() + fetched_A_);
  append_columns(d.A.column, row, A_column_), append_columns(fetched.A.column, row, A_column_);
  P_start_.assign(d.P.start.begin(), d.P.start.end()), append_starts(fetched.P.start, P_start_);
  if (!same_) Q_start_.assign(d.Q.start.begin(), d.Q.start.end());
  Q_start_fetched_.assign(1, Local(d.Q.column.size())), append_starts(fetched.Q.start, Q_start_fetched_);
  Q_column_.reserve(d.Q.column.size() + fetched_Q_);
  const auto own_column = [&](Global c) {
    return c >= columns.begin() && c < columns.end() ? Local(c - columns.begin()) : Local(-1);
  };
  append_columns(d.Q.column, own_column, Q_column_), append_columns(fetched.Q.column, own_column, Q_column_);
  C_start_ = d.C.start;

  std::vector<Global> met;
  if (columns.comm().size() > 1) {
    met = detail::outside(columns, {&d.P});
    const auto more = detail::outside(columns, {&fetched.P});
    met.insert(met.end(), more.begin(), more.end());
  }
  detail::sort_unique(met);
  const auto& number = d.number.emplace(columns, std::move(met));
  d.P_column.reserve(d.P.column.size() + fetched_P_);
  append_columns(d.P.column, number, d.P_column), append_columns(fetched.P.column, number, d.P_column);
}

/// Blocks, in the order of rows over all ranks.
template <Scalar T>
void TripleProductPlan<T>::cut_blocks(const Draft& d) {
  const auto& row = d.fetched.row;
  const Local above = Local(std::lower_bound(row.begin(), row.end(), d.inner.begin()) - row.begin());
  const auto cut = [&](Local first, Local last) {
    for (; first < last; first += block_rows_of_plans) {
      Block block;
      block.row = first, block.rows = std::min(block_rows_of_plans, last - first);
      block_.push_back(block);
    }
  };
  cut(rows_, rows_ + above), cut(0, rows_), cut(rows_ + above, Local(A_start_.size() - 1));
}

/// Finds the rows of A P, whose columns are those of P in the order in which sums meet them, and the entries of R. A
/// row that a row of R needs is not longer than the row of C.
template <Scalar T>
void TripleProductPlan<T>::place_sums(Draft& d) {
  const auto all = A_start_.size() - 1;
  for (std::size_t i = 1; i < C_start_.size(); ++i)
    longest_ = std::max(longest_, std::size_t(C_start_[i] - C_start_[i - 1]));
  Global sums = 0;
  for (Local i = 0; i < Local(all); ++i)
    if (own_entries_of_Q(i) > 0)
      for (auto k = A_start_[std::size_t(i)]; k < A_start_[std::size_t(i) + 1]; ++k) {
        const auto j = std::size_t(A_column_[std::size_t(k)]);
        sums += P_start_[j + 1] - P_start_[j];
      }
  R_start_.assign(std::size_t(d.columns.local_size()) + 1, 0);
  // All are as wide as the lengths: the loops over them are compiled once for each width.
  length_ = Places(longest_ + 1, all);
  sum_ = Places(longest_ + 1, std::size_t(sums));
  d.AP_start.assign(all + 1, 0), d.target_start.resize(all);
  length_.with([&]<class Place>(Place* length) { place_sums(d, length, sum_.as<Place>()); });
  std::partial_sum(R_start_.begin(), R_start_.end(), R_start_.begin());
}

template <Scalar T>
template <class Place>
void TripleProductPlan<T>::place_sums(Draft& d, Place* length, Place* place) {
  std::vector<std::size_t> stamp(std::size_t(d.number->count()), 0);
  std::vector<Local> at(stamp.size());
  std::size_t now = 0;
  Global next = 0;
  for (Block& block : block_) {
    block.sum = next, block.target = d.targets;
    block.least = std::numeric_limits<Local>::max();
    for (Local i = block.row; i < block.row + block.rows; ++i) {
      d.target_start[std::size_t(i)] = d.targets;
      d.AP_start[std::size_t(i)] = Global(d.AP_column.size());
      length[i] = 0;
      const auto columns_here = own_entries_of_Q(i);
      if (columns_here == 0) continue;
      ++now;
      Local n = 0;
      for (auto k = A_start_[std::size_t(i)]; k < A_start_[std::size_t(i) + 1]; ++k) {
        const auto j = std::size_t(A_column_[std::size_t(k)]);
        for (Local e = P_start_[j]; e < P_start_[j + 1]; ++e) {
          const auto c = std::size_t(d.P_column[std::size_t(e)]);
          if (stamp[c] != now) stamp[c] = now, at[c] = n++, d.AP_column.push_back(Local(c));
          place[next++] = Place(at[c]);
        }
      }
      length[i] = Place(n);
      d.targets += columns_here * n;
      const Local* const q = begin_of_Q(i);
      for (Local k = q[0]; k < q[1]; ++k)
        if (const Local c = Q_column_[std::size_t(k)]; c >= 0) {
          block.least = std::min(block.least, c), block.most = std::max(block.most, c);
          ++R_start_[std::size_t(c) + 1];
        }
    }
  }
}

/// Finds, in rows of C, the places of the entries of each row of A P.
template <Scalar T>
void TripleProductPlan<T>::place_targets(const Draft& d) {
  // By rows of R, so that each row of C is looked at once: the row of A P, and where its places begin.
  struct Use {
    Local row;
    Global target;
  };
  std::vector<Use> use(std::size_t(R_start_.back()));
  target_ = Places(longest_ + 1, std::size_t(d.targets));
  length_.with([&]<class Place>(const Place* length) {
    std::vector<Global> next(R_start_.begin(), R_start_.end() - 1);
    for (const Block& block : block_)
      for (Local i = block.row; i < block.row + block.rows; ++i) {
        const Local* const q = begin_of_Q(i);
        Global target = d.target_start[std::size_t(i)];
        for (Local k = q[0]; k < q[1]; ++k)
          if (const Local c = Q_column_[std::size_t(k)]; c >= 0)
            use[std::size_t(next[std::size_t(c)]++)] = {i, target}, target += Global(length[i]);
      }
    Place* const place = target_.as<Place>();
    std::vector<Local> at(std::size_t(d.number->count()));
    for (std::size_t c = 0; c + 1 < C_start_.size(); ++c) {
      for (Global k = C_start_[c]; k < C_start_[c + 1]; ++k)
        at[std::size_t((*d.number)(d.C.column[std::size_t(k)]))] = Local(k - C_start_[c]);
      for (Global k = R_start_[c]; k < R_start_[c + 1]; ++k) {
        const Use& u = use[std::size_t(k)];
        const Local* const from = d.AP_column.data() + d.AP_start[std::size_t(u.row)];
        for (std::size_t e = 0; e < std::size_t(length[u.row]); ++e)
          place[std::size_t(u.target) + e] = Place(at[std::size_t(from[e])]);
      }
    }
  });
}

/// The factors' numbers, and the rows of R and C that a thread makes.
template <Scalar T>
struct TripleProductPlan<T>::Work {
  const T *Q, *A, *P;
  const T *fetched_Q, *fetched_A, *fetched_P;
  T *R, *C;
  Local first, last;
};

template <Scalar T>
template <class Place>
void TripleProductPlan<T>::add_blocks(const Work& w, const Place* lengths) const {
  const Place *const sums = sum_.as<Place>(), *const targets = target_.as<Place>();
  std::vector<T> row(longest_);
  std::vector<Global> next(R_start_.begin() + w.first, R_start_.begin() + w.last);
  std::fill(w.C + C_start_[std::size_t(w.first)], w.C + C_start_[std::size_t(w.last)], T(0));
  const Global own_of_A = A_start_[std::size_t(rows_)];
  const Local own_of_P = P_start_[std::size_t(rows_)], own_of_Q = Q_start_fetched_[0];
  const Local* const P_start = P_start_.data();
  T* const sum = row.data();
  for (const Block& block : block_) {
    if (block.most < w.first || block.least >= w.last) continue;
    const Place* to = sums + block.sum;
    const Place* target = targets + block.target;
    for (Local i = block.row; i < block.row + block.rows; ++i) {
      const std::ptrdiff_t length = std::ptrdiff_t(lengths[i]);
      if (length > 0) {
        std::fill_n(sum, length, T(0));
        const Global from = A_start_[std::size_t(i)], entries = A_start_[std::size_t(i) + 1] - from;
        const T* const a = i < rows_ ? w.A + from : w.fetched_A + (from - own_of_A);
        const Local* const column = A_column_.data() + from;
        for (Global k = 0; k < entries; ++k) {
          const T factor = a[k];
          const Local j = column[k], begin = P_start[j], n = P_start[j + 1] - begin;
          const T* const p = j < rows_ ? w.P + begin : w.fetched_P + (begin - own_of_P);
          for (Local e = 0; e < n; ++e) sum[*to++] += factor * p[e];
        }
      }
      const Local* const start = begin_of_Q(i);
      const T* const q = i < rows_ ? w.Q + start[0] : w.fetched_Q + (start[0] - own_of_Q);
      for (Local k = 0; k < start[1] - start[0]; ++k) {
        const Local c = Q_column_[std::size_t(start[0] + k)];
        if (c >= w.first && c < w.last) {
          const T factor = conj(q[k]);
          w.R[next[std::size_t(c - w.first)]++] = factor;
          T* const into = w.C + C_start_[std::size_t(c)];
          for (std::ptrdiff_t e = 0; e < length; ++e) into[target[e]] += factor * sum[e];
        }
        if (c >= 0) target += length;
      }
    }
  }
}

template <Scalar T>
void TripleProductPlan<T>::multiply(const T* Q, const T* A, const T* P, T* R, T* C) const {
  const Span span("sparse triple product", "op");
  if (same_) Q = P;
  std::vector<T> others(fetched_.size());
  const auto of_A = columns().size(), of_P = std::size_t(P_start_[std::size_t(rows_)]);
  fetched_.fetch(
      [&](std::size_t k) {
        if (k < of_A) return A[k];
        return k < of_A + of_P ? P[k - of_A] : Q[k - of_A - of_P];
      },
      others.data());
  const T* const fetched_A = others.data();
  const T* const fetched_Q = fetched_A + fetched_A_;
  const auto columns_here = C_start_.size() - 1;
  const auto parts = std::max<std::size_t>(1, std::min<std::size_t>(std::size_t(exec::threads()), columns_here / 256));
  exec::parallel_for(
      parts, parts > 1,
      [&](std::size_t t) {
        const Work work{Q,
                        A,
                        P,
                        fetched_Q,
                        fetched_A,
                        fetched_Q + fetched_Q_,
                        R,
                        C,
                        Local(columns_here * t / parts),
                        Local(columns_here * (t + 1) / parts)};
        length_.with([&](const auto* lengths) { add_blocks(work, lengths); });
      },
      1);
}

template <Scalar T>
double TripleProductPlan<T>::bytes() const {
  const auto of = [](const auto& v) { return double(v.capacity()) * sizeof(v[0]); };
  return of(A_start_) + of(A_column_) + of(P_start_) + of(Q_start_) + of(Q_start_fetched_) + of(Q_column_) +
         of(R_start_) + of(C_start_) + of(others_) + length_.bytes() + sum_.bytes() + target_.bytes() + of(block_);
}

#define TACIT_INSTANTIATE(T)       \
  template class FetchedValues<T>; \
  template class TripleProductPlan<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::op
