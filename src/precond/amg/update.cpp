#include "update.hpp"

#include "../scalar.hpp"
#include "aggregates.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>
#include "op/multiply.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

namespace tacit::precond {

using layout::Space;
using op::block_rows_of_plans;

namespace {

/// The place of column c in row i.
template <Scalar T>
std::size_t place_of(const op::Rows<T>& rows, Local i, Global c) {
  const auto begin = rows.column.begin() + rows.start[std::size_t(i)],
             end = rows.column.begin() + rows.start[std::size_t(i) + 1];
  return std::size_t(std::lower_bound(begin, end, c) - begin);
}

std::size_t longest_row(const std::vector<Global>& start) {
  Global most = 0;
  for (std::size_t i = 1; i < start.size(); ++i) most = std::max(most, start[i] - start[i - 1]);
  return std::size_t(most);
}

}  // namespace

/// Calls f(j, s_ij) for the entries of row i of S, in the order of global columns; returns d_i, 0 for a row of I.
template <Scalar T>
template <class F>
T SmoothingPlan<T>::each_of_row(const NumberedRows<T>& A, Local i, double omega, std::vector<T>& scratch, F&& f) const {
  const auto begin = std::size_t(A.start[std::size_t(i)]), end = std::size_t(A.start[std::size_t(i) + 1]);
  const Local* const column = A.column.data();
  const T* const value = A.value.data();
  const std::uint8_t* const filter = filter_->empty() ? nullptr : filter_->data();
  if (filter && begin < end && filter[begin] == in_row_of_identity) {
    f(i, T(1));
    return T(0);
  }
  T own{}, lumped{};
  bool there = false;
  if (!filter) {
    for (std::size_t k = begin; k < end; ++k)
      if (column[k] == i) own = value[k], there = true;
  } else {
    const bool weighted = !lumping_.empty() && lumping_[std::size_t(i)] != T(0);
    const T inverse_of_row = weighted ? inverse_of_lumping_[std::size_t(i)] : T(0);
    for (std::size_t k = begin; k < end; ++k) {
      const Local c = column[k];
      if (c == i) own = value[k], there = true;
      else if (filter[k] != in_filtered)
        lumped += value[k] * (weighted ? lumping_[std::size_t(c)] * inverse_of_row : T(1));
    }
  }
  const auto damped = damped_row(own, lumped, omega);
  const T d = damped.d, factor = damped.factor, on_diagonal = damped.on_diagonal;
  // Calls put(j, a) for the entries of A_F; a diagonal entry that A does not have stands before the first one beyond
  // it.
  const auto each_filtered = [&](auto&& put) {
    bool before = !there;
    for (std::size_t k = begin; k < end; ++k) {
      const Local c = column[k];
      if (before && (c < rows_ ? c > i : c >= rows_ + below_)) put(i, T(0)), before = false;
      if (c == i || !filter || filter[k] == in_filtered) put(c, value[k]);
    }
    if (before) put(i, T(0));
  };
  if constexpr (is_complex<T>) {
    scratch.clear();
    each_filtered([&](Local, T a) { scratch.push_back(a); });
    scale(scratch.data(), scratch.size(), factor);
    std::size_t next = 0;
    each_filtered([&](Local j, T) { f(j, j == i ? on_diagonal : scratch[next]), ++next; });
  } else {
    each_filtered([&](Local j, T a) { f(j, j == i ? on_diagonal : a * factor); });
  }
  return d;
}

/// The diagonal's factors, with those of other ranks' rows.
template <Scalar T>
void SmoothingPlan<T>::take_lumping(std::vector<T> lumping, const Halo& halo) {
  const Space& space = halo.space();
  const auto& comm = space.comm();
  if (comm.all_max(Global(lumping.size())) == 0) return;
  lumping_ = std::move(lumping);
  inverse_of_lumping_.resize(lumping_.size());
  std::transform(lumping_.begin(), lumping_.end(), inverse_of_lumping_.begin(),
                 [](T v) { return v != T(0) ? inverse(v) : T(0); });
  op::Rows<T> diagonal;
  for (std::size_t i = 0; i < lumping_.size(); ++i) {
    diagonal.column.push_back(space.begin() + Global(i));
    diagonal.start.push_back(Global(i) + 1);
  }
  diagonal.value.assign(lumping_.begin(), lumping_.end());
  if (comm.size() > 1) {
    const auto others = op::rows_of_others(space, diagonal, halo.others()).value;
    lumping_.insert(lumping_.end(), others.begin(), others.end());
  }
}

template <Scalar T>
SmoothingPlan<T>::SmoothingPlan(const NumberedRows<T>& A, const Halo& halo, Smoothing<T> smoothing,
                                const op::Rows<T>& P, const op::Rows<T>* Q)
    : rows_(A.count()), filter_(smoothing.filter), P_start_(P.start), has_Q_(Q != nullptr) {
  const Span span("plan of smoothing", "precond");
  const Space& space = halo.space();
  const auto& comm = space.comm();
  below_ = Local(std::lower_bound(halo.others().begin(), halo.others().end(), space.begin()) - halo.others().begin());
  take_lumping(std::move(smoothing.lumping), halo);
  op::Rows<T> t = std::move(smoothing.tentative);
  const auto own_of_t = t.column.size();
  const op::Rows<T> others = comm.size() == 1 ? op::Rows<T>{} : op::rows_of_others(space, t, halo.others());
  start_.assign(t.start.begin(), t.start.end());
  for (std::size_t i = 1; i < others.start.size(); ++i) start_.push_back(Local(t.start.back() + others.start[i]));
  t_.assign(t.value.begin(), t.value.end());
  t_.insert(t_.end(), others.value.begin(), others.value.end());
  one_each_ = true;
  for (std::size_t i = 0; i < start_.size(); ++i) one_each_ &= start_[i] == Local(i);
  auto& columns = t.column;
  columns.insert(columns.end(), others.column.begin(), others.column.end());

  op::Rows<T> sent;  // entries of S in columns of other ranks
  const auto [terms_of_P, terms_of_Q] = count_terms(A, halo, sent);
  std::vector<T> scratch;
  const auto each_term = [&](op::Places& places, const op::Rows<T>& of, std::size_t count, auto&& terms) {
    places = op::Places(longest_row(of.start), count);
    places.with([&](auto* place) {
      std::size_t next = 0;
      for (Local i = 0; i < rows_; ++i)
        each_of_row(A, i, 0, scratch, [&](Local j, T) {
          terms(i, j, [&](Local row, Local e) {
            place[next++] = std::remove_reference_t<decltype(*place)>(place_of(of, row, columns[std::size_t(e)]));
          });
        });
    });
  };
  each_term(P_, P, terms_of_P, [&](Local i, Local j, auto&& put) {
    for (Local e = start_[std::size_t(j)]; e < start_[std::size_t(j) + 1]; ++e) put(i, e);
  });
  if (!has_Q_) return;
  Q_start_ = Q->start;
  each_term(Q_, *Q, terms_of_Q, [&](Local i, Local j, auto&& put) {
    for (Local e = start_[std::size_t(i)]; j < rows_ && e < start_[std::size_t(i) + 1]; ++e) put(j, e);
  });
  if (comm.size() == 1) return;
  columns.resize(own_of_t);
  list_terms_of_others(space, std::move(sent), columns, *Q);
}

/// The numbers of terms of P, and of those of Q in this rank's rows, and where those of blocks begin; `sent`: entries
/// of S in columns of other ranks.
template <Scalar T>
std::pair<std::size_t, std::size_t> SmoothingPlan<T>::count_terms(const NumberedRows<T>& A, const Halo& halo,
                                                                  op::Rows<T>& sent) {
  const auto blocks = std::size_t((rows_ + block_rows_of_plans - 1) / block_rows_of_plans);
  block_.resize(blocks);
  std::size_t terms_of_P = 0, terms_of_Q = 0;
  std::vector<T> scratch;
  const auto length = [&](Local j) { return std::size_t(start_[std::size_t(j) + 1] - start_[std::size_t(j)]); };
  for (Local i = 0; i < rows_; ++i) {
    Block& block = block_[std::size_t(i / block_rows_of_plans)];
    if (i % block_rows_of_plans == 0) {
      block.P = Global(terms_of_P), block.Q = Global(terms_of_Q), block.sent = Local(sent.column.size());
      block.least = std::numeric_limits<Local>::max();
    }
    each_of_row(A, i, 0, scratch, [&](Local j, T) {
      terms_of_P += length(j);
      if (j < rows_) {
        terms_of_Q += length(i);
        block.least = std::min(block.least, j), block.most = std::max(block.most, j);
      } else if (has_Q_) {
        sent.column.push_back(halo.global(j));
      }
    });
    sent.start.push_back(Global(sent.column.size()));
  }
  if (has_Q_) sent_ = sent.column.size();
  return {terms_of_P, terms_of_Q};
}

/// Entries of S in this rank's columns and other ranks' rows k, and the rows k of T, are sent by their owners.
/// `own_columns` are those of this rank's rows of T.
template <Scalar T>
void SmoothingPlan<T>::list_terms_of_others(const Space& space, op::Rows<T> sent,
                                            const exec::Buffer<Global>& own_columns, const op::Rows<T>& Q) {
  const auto& comm = space.comm();
  const auto own_of_t = own_columns.size();
  sent.value.resize(sent.column.size());
  const std::size_t own = sent.column.size() + own_of_t;
  const Global first = op::FetchedValues<T>::offset(comm, own);
  const auto adjoint = op::adjoint(op::with_numbers(sent, first), space, space);
  std::vector<Global> k(adjoint.column.begin(), adjoint.column.end());
  std::sort(k.begin(), k.end());
  k.erase(std::unique(k.begin(), k.end()), k.end());
  op::Rows<T> own_t;
  own_t.start.assign(start_.begin(), start_.begin() + rows_ + 1);
  own_t.column = own_columns;
  own_t.value.resize(own_of_t);
  const auto rows_of_T = op::rows_of_others(space, op::with_numbers(own_t, first + Global(sent.column.size())), k);
  std::vector<Global> needed;
  for (const double number : adjoint.value) needed.push_back(Global(number));
  for (const double number : rows_of_T.value) needed.push_back(Global(number));
  fetched_ = op::FetchedValues<T>(comm, own, std::move(needed));
  for (const bool below : {true, false}) {
    for (Local i = 0; i < rows_; ++i)
      for (auto e = std::size_t(adjoint.start[std::size_t(i)]); e < std::size_t(adjoint.start[std::size_t(i) + 1]);
           ++e) {
        if ((adjoint.column[e] < space.begin()) != below) continue;
        const auto row = std::size_t(std::lower_bound(k.begin(), k.end(), adjoint.column[e]) - k.begin());
        for (auto t_entry = rows_of_T.start[row]; t_entry < rows_of_T.start[row + 1]; ++t_entry) {
          const auto place = place_of(Q, i, rows_of_T.column[std::size_t(t_entry)]);
          term_.push_back(
              {Q_start_[std::size_t(i)] + Global(place), Local(e), Local(adjoint.column.size()) + Local(t_entry)});
        }
      }
    if (below) terms_below_ = term_.size();
  }
}

/// The terms of rows [first, last) of Q from this rank's rows of S.
template <Scalar T>
template <class Place>
void SmoothingPlan<T>::add_to_Q(const NumberedRows<T>& A, double omega, const std::vector<T>& t, const Place* places,
                                Local first, Local last, exec::Array<T, Host>& Q) const {
  std::vector<T> scratch;
  for (std::size_t b = 0; b < block_.size(); ++b) {
    if (block_[b].most < first || block_[b].least >= last) continue;
    const Place* place = places + block_[b].Q;
    const Local begin = Local(b) * block_rows_of_plans, end = std::min(rows_, begin + block_rows_of_plans);
    for (Local i = begin; i < end; ++i) {
      const Local from = start_[std::size_t(i)], n = start_[std::size_t(i) + 1] - from;
      each_of_row(A, i, omega, scratch, [&](Local j, T s) {
        if (j >= rows_) return;
        if (j >= first && j < last) {
          T* const to = Q.data() + Q_start_[std::size_t(j)];
          for (Local e = 0; e < n; ++e) to[place[e]] += conj(s) * t[std::size_t(from + e)];
        }
        place += n;
      });
    }
  }
}

template <Scalar T>
auto SmoothingPlan<T>::smooth(const NumberedRows<T>& A, double omega) const -> Values {
  const Span span("smoothing of P", "precond");
  Values found{exec::Array<T, Host>::uninitialised(std::size_t(P_start_.back())), {}};
  auto& P = found.P;
  std::vector<T> diagonal(has_Q_ ? std::size_t(rows_) : 0), sent(sent_);
  P_.with([&](const auto* places) {
    exec::parallel_for(block_.size(), block_.size() > 64, [&](std::size_t b) {
      const auto* place = places + block_[b].P;
      std::vector<T> scratch;
      auto next = std::size_t(block_[b].sent);
      const Local begin = Local(b) * block_rows_of_plans, end = std::min(rows_, begin + block_rows_of_plans);
      for (Local i = begin; i < end; ++i) {
        T* const to = P.data() + P_start_[std::size_t(i)];
        std::fill(to, P.data() + P_start_[std::size_t(i) + 1], T(0));
        const auto send = [&](Local j, T s) {
          if (has_Q_ && j >= rows_) sent[next++] = conj(s);
        };
        const T d = one_each_ ? each_of_row(A, i, omega, scratch,
                                            [&](Local j, T s) {
                                              to[*place++] += s * t_[std::size_t(j)];
                                              send(j, s);
                                            })
                              : each_of_row(A, i, omega, scratch, [&](Local j, T s) {
                                  for (Local e = start_[std::size_t(j)]; e < start_[std::size_t(j) + 1]; ++e)
                                    to[*place++] += s * t_[std::size_t(e)];
                                  send(j, s);
                                });
        if (has_Q_) diagonal[std::size_t(i)] = d;
      }
    });
  });
  if (has_Q_) found.Q = smooth_Q(A, omega, diagonal, sent);
  return found;
}

/// Q from the diagonal of A and what others need of P's sums. Collective.
template <Scalar T>
exec::Array<T, Host> SmoothingPlan<T>::smooth_Q(const NumberedRows<T>& A, double omega, const std::vector<T>& diagonal,
                                                const std::vector<T>& sent) const {
  exec::Array<T, Host> Q(std::size_t(Q_start_.back()));
  std::vector<T> t(t_.begin(), t_.begin() + start_[std::size_t(rows_)]);  // D^H T
  exec::parallel_for(diagonal.size(), diagonal.size() > 5000, [&](std::size_t i) {
    if (diagonal[i] != T(0)) scale(t.data() + start_[i], std::size_t(start_[i + 1] - start_[i]), conj(diagonal[i]));
  });
  std::vector<T> others(fetched_.size());
  fetched_.fetch(
      [&](std::size_t k) {
        if (k < sent.size()) return sent[k];
        return t[k - sent.size()];
      },
      others.data());
  const auto add = [&](std::size_t from, std::size_t to) {
    for (std::size_t k = from; k < to; ++k)
      Q[std::size_t(term_[k].entry)] += others[std::size_t(term_[k].s)] * others[std::size_t(term_[k].t)];
  };
  add(0, terms_below_);
  const auto parts = std::max<std::size_t>(1, std::min<std::size_t>(std::size_t(exec::threads()), block_.size() / 16));
  Q_.with([&](const auto* places) {
    exec::parallel_for(
        parts, parts > 1,
        [&](std::size_t p) {
          const auto row = [&](std::size_t part) { return Local(std::size_t(rows_) * part / parts); };
          add_to_Q(A, omega, t, places, row(p), row(p + 1), Q);
        },
        1);
  });
  add(terms_below_, term_.size());
  exec::parallel_for(diagonal.size(), diagonal.size() > 5000, [&](std::size_t i) {
    if (diagonal[i] == T(0)) return;
    scale(Q.data() + Q_start_[i], std::size_t(Q_start_[i + 1] - Q_start_[i]), inverse(conj(diagonal[i])));
  });
  return Q;
}

template <Scalar T>
double SmoothingPlan<T>::bytes() const {
  const auto of = [](const auto& v) { return double(v.capacity()) * sizeof(v[0]); };
  return of(lumping_) + of(inverse_of_lumping_) + of(start_) + of(t_) + of(P_start_) + of(Q_start_) + P_.bytes() +
         Q_.bytes() + of(block_) + of(term_);
}

template <Scalar T>
std::vector<double> diagonal_roots(const NumberedRows<T>& rows, const Halo& halo, double& bound) {
  auto roots = roots_of_rows(rows, 0, bound);
  halo.update(roots);
  return roots;
}

#define TACIT_INSTANTIATE(T)       \
  template class SmoothingPlan<T>; \
  template std::vector<double> diagonal_roots<T>(const NumberedRows<T>&, const Halo&, double&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
