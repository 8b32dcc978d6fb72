#include "cells.hpp"
#include "base/release.hpp"

#include "cell_messages.hpp"
#include "triangles.hpp"

#include <tacit/base/lapack.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/comm/mail.hpp>
#include "exec/branches.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

namespace tacit::precond::detail {
using bytes::Bytes, bytes::Reader, bytes::write;

template <Scalar F>
void Cells<F>::add_to_diagonal(F shift) {
  const auto add = [&](const auto& self, HBlock<F>& b) -> void {
    if (b.is_cut()) return self(self, *b.child[0][0]), self(self, *b.child[1][1]);
    for (std::size_t i = 0; i < std::size_t(b.rows); ++i) b.a[i * std::size_t(b.rows) + i] += shift;
  };
  for (auto& [place, cell] : own_)
    if (place.first == place.second) add(add, *cell.root);
}

template <Scalar F>
void Cells<F>::each_user(int a, int b, const std::function<void(int, int)>& f) const {
  const int n = grid_.count();
  if (a == b) {
    for (int i = a + 1; i < n; ++i) {
      f(i, b);
      if (!cholesky_) f(a, i);
    }
  } else if (a > b) {  // L
    for (int j = b + 1; j < (cholesky_ ? a + 1 : n); ++j) f(a, j);
    if (cholesky_)
      for (int i = a + 1; i < n; ++i) f(i, a);
  } else {
    for (int i = a + 1; i < n; ++i) f(i, b);
  }
}

// One factorisation.
template <Scalar F>
class Cells<F>::Run {
 public:
  explicit Run(Cells& cells) : c_(cells), mail_(cells.comm_) {
    for (auto& [place, cell] : c_.own_) left_.push_back({place, 0});
    std::sort(left_.begin(), left_.end(), [](const Work& a, const Work& b) {
      const auto rank = [](const Work& w) {
        const auto [i, j] = w.place;
        return std::tuple(std::min(i, j), std::max(i, j), j);
      };
      return rank(a) < rank(b);
    });
  }

  void operator()() {
    while (!left_.empty()) {
      waits_.clear();
      const auto ready = std::find_if(left_.begin(), left_.end(), [&](Work& w) { return step(w); });
      if (ready == left_.end()) mail_.wait_for_one(waits_);
      else if (ready->done) left_.erase(ready);
    }
    mail_.finish();
  }

 private:
  struct Work {
    Place place;
    int k = 0;  // the next product to subtract
    bool done = false;
  };
  struct Remote {
    Cell<F> cell;
    int uses = 0;
  };

  // A finished cell, or null where it has not arrived or is not finished.
  const HBlock<F>* finished(int i, int j) {
    const Place place{i, j};
    if (c_.owns(i, j)) return finished_.contains(place) ? c_.own_.at(place).root.get() : nullptr;
    auto found = remote_.find(place);
    if (found == remote_.end()) {
      const Global label = Global(i) * c_.grid_.count() + j;
      if (!mail_.has(label)) {
        waits_.push_back(label);
        return nullptr;
      }
      found = remote_.emplace(place, receive(label, place)).first;
    }
    return found->second.cell.root.get();
  }
  Remote receive(Global label, Place place) {
    const Span span("factors arrive", "precond");
    const auto bytes = mail_.take(label);
    Reader from(bytes);
    Remote r;
    if (from.next<bool>()) c_.arithmetic.fail(), r.cell.root = std::make_unique<HBlock<F>>();
    else r.cell = read_cell<F>(from);
    c_.each_user(place.first, place.second, [&](int i, int j) { r.uses += c_.owns(i, j); });
    return r;
  }
  void used(int i, int j) {
    const auto found = remote_.find({i, j});
    if (found != remote_.end() && --found->second.uses == 0) remote_.erase(found);
  }

  // Does the next step of a cell, if what it needs is there.
  bool step(Work& w) {
    const auto [i, j] = w.place;
    HBlock<F>& c = *c_.own_.at(w.place).root;
    auto& arithmetic = c_.arithmetic;
    const auto run = [&](auto&& f) { exec::branching(HArithmetic<F>::divides(c), f); };
    if (w.k < std::min(i, j)) {
      const auto *left = finished(i, w.k), *right = c_.cholesky_ ? finished(j, w.k) : finished(w.k, j);
      if (!left || !right) return false;
      run([&] {
        if (i == j && c_.cholesky_) arithmetic.subtract_square(*left, c);
        else if (c_.cholesky_) arithmetic.template subtract_product<true>(*left, *right, c);
        else arithmetic.template subtract_product<false>(*left, *right, c);
      });
      used(i, w.k);
      if (!c_.cholesky_) used(w.k, j);
      else if (i != j) used(j, w.k);
      ++w.k;
      return true;
    }
    const int k = w.k;
    const auto* const diagonal = i == j ? &c : finished(k, k);
    if (!diagonal) return false;
    run([&] {
      if (i == j) c_.cholesky_ ? arithmetic.factorise_hermitian(c) : arithmetic.factorise(c);
      else if (j > i) arithmetic.solve_lower(*diagonal, c);
      else if (c_.cholesky_) arithmetic.solve_adjoint(*diagonal, c);
      else arithmetic.solve_upper(*diagonal, c);
    });
    if (i != j) used(k, k);
    w.done = true;
    finished_.insert(w.place);
    send(w.place, c);
    return true;
  }

  void send(Place place, const HBlock<F>& c) {
    std::set<int> to;
    c_.each_user(place.first, place.second, [&](int i, int j) { to.insert(c_.grid_.owner(i, j)); });
    to.erase(c_.comm_.rank());
    if (to.empty()) return;
    Bytes bytes;
    const bool failed = c_.arithmetic.failed();
    write(bytes, failed);
    if (!failed) write_block(bytes, c);
    c_.sent_.messages += double(to.size()), c_.sent_.bytes += double(to.size() * bytes.size());
    const std::vector<int> ranks(to.begin(), to.end());
    mail_.send(ranks, Global(place.first) * c_.grid_.count() + place.second, std::move(bytes));
  }

  Cells& c_;
  comm::Mail mail_;
  std::vector<Work> left_;
  std::set<Place> finished_;
  std::map<Place, Remote> remote_;
  std::vector<Global> waits_;
};

template <Scalar F>
void Cells<F>::factorise() {
  Run run(*this);
  run();
}

namespace {

using Step = TriangleStep;
constexpr bool is_transposed(Step s) {
  return s == Step::lower_transposed || s == Step::upper_transposed;
}
constexpr bool is_ascending(Step s) {
  return s == Step::lower || s == Step::upper_transposed;
}
// The cell by which the elements of cluster j change those of cluster i.
constexpr std::pair<int, int> beside(Step s, int i, int j) {
  return is_transposed(s) ? std::pair(j, i) : std::pair(i, j);
}

}  // namespace

// Which ranks take part in which step of a sweep.
template <Scalar F>
const typename Cells<F>::Plan& Cells<F>::plan(Step s) const {
  Plan& p = plans_[std::size_t(s)];
  const int n = grid_.count();
  if (!p.readers.empty()) return p;
  p.readers.resize(std::size_t(n)), p.parts.resize(std::size_t(n)), p.targets.resize(std::size_t(n));
  p.sources.assign(std::size_t(n), 0);
  for (int i = 0; i < n; ++i) {
    const int first = is_ascending(s) ? 0 : i + 1, last = is_ascending(s) ? i : n;
    std::set<int> parts;
    for (int j = first; j < last; ++j) {
      const auto [row, column] = beside(s, i, j);
      const int owner = grid_.owner(row, column);
      parts.insert(owner);
      auto& readers = p.readers[std::size_t(j)];
      if (owner != grid_.owner(j, j) && std::find(readers.begin(), readers.end(), owner) == readers.end())
        readers.push_back(owner);
      if (owner != comm_.rank()) continue;
      p.targets[std::size_t(j)].push_back(i);
      ++p.sources[std::size_t(i)];
    }
    parts.erase(grid_.owner(i, i));
    p.parts[std::size_t(i)].assign(parts.begin(), parts.end());
  }
  return p;
}

// Solves with triangles, cell by cell: the rank that has cell (i, i) solves for the elements of cluster i once the
// parts of other clusters have been subtracted, which the ranks that have the cells beside it send as one sum each.
template <Scalar F>
class Cells<F>::Sweep {
 public:
  Sweep(const Cells& cells, std::span<const Global> cuts, Local k)
      : c_(cells), n_(cells.grid_.count()), rank_(cells.comm_.rank()), cuts_(cuts), k_(k), x_(std::size_t(n_)) {
    if (c_.comm_.size() > 1) mail_.emplace(c_.comm_);
    for (int i = 0; i < n_; ++i)
      if (c_.owns(i, i)) x_[std::size_t(i)].resize(length(i));
  }

  // Elements from the ranks that have the rows to those that have the cells of the diagonal; and back.
  void get(const F* rows) { transfer<true>(rows, 0); }
  void put(F* rows) {
    transfer<false>(rows, 1);
    if (mail_) mail_->finish();
  }

  void conjugate() {
    if constexpr (is_complex<F>)
      for (auto& part : x_)
        for (F& v : part) v = conj(v);
  }

  void run(Step s) {
    const Plan& p = c_.plan(s);
    const Global kind = next_kind_;
    next_kind_ += 2;
    auto left = p.sources;
    std::vector<std::vector<F>> sums(x_.size());
    for (int at = 0; at < n_; ++at) {
      const int i = is_ascending(s) ? at : n_ - 1 - at;
      auto& x = x_[std::size_t(i)];
      const auto& targets = p.targets[std::size_t(i)];
      std::vector<F> theirs;
      const F* from = x.data();
      if (c_.owns(i, i)) {
        for (const int other : p.parts[std::size_t(i)]) {
          const auto part = take(label(kind, i, other));
          for (std::size_t e = 0; e < x.size(); ++e) x[e] += part[e];
        }
        solve(s, i, x.data());
        if (!p.readers[std::size_t(i)].empty()) send(p.readers[std::size_t(i)], label(kind + 1, i, rank_), x);
      } else if (!targets.empty()) {
        theirs = take(label(kind + 1, i, c_.grid_.owner(i, i)));
        from = theirs.data();
      }
      for (const int t : targets) {
        const bool own = c_.owns(t, t);
        auto& sum = own ? x_[std::size_t(t)] : sums[std::size_t(t)];
        if (sum.empty()) sum.assign(length(t), F(0));
        subtract(s, t, i, from, sum.data());
        if (--left[std::size_t(t)] > 0 || own) continue;
        const int to[] = {c_.grid_.owner(t, t)};
        send(to, label(kind, t, rank_), sum);
        release(sum);
      }
    }
  }

 private:
  std::size_t length(int i) const { return std::size_t(c_.grid_.size(i)) * std::size_t(k_); }
  Global label(Global kind, int i, int sender) const { return (kind * n_ + i) * c_.comm_.size() + sender; }
  void send(std::span<const int> to, Global label, const std::vector<F>& numbers) {
    Bytes bytes;
    bytes.reserve(numbers.size() * sizeof(F) + 16);
    write(bytes, numbers.data(), numbers.size());
    mail_->send(to, label, std::move(bytes));
  }
  std::vector<F> take(Global label) {
    const auto bytes = mail_->take(label);
    return Reader(bytes).next<F>(bytes.size() / sizeof(F));
  }

  void solve(Step s, int i, F* x) {
    const HBlock<F>& d = *c_.own_.at({i, i}).root;
    exec::branching(solve_divides(d), [&] {
      if (s == Step::lower) lower(d, x, d.rows, k_);
      else if (s == Step::upper) upper(d, x, d.rows, k_);
      else if (s == Step::lower_transposed) lower_transposed(d, x, d.rows, k_);
      else upper_transposed(d, x, d.rows, k_);
    });
  }
  void subtract(Step s, int target, int source, const F* x, F* y) {
    const HBlock<F>& b = *c_.own_.at(beside(s, target, source)).root;
    exec::branching(solve_divides(b), [&] {
      if (is_transposed(s)) apply_transposed(b, F(-1), x, b.rows, y, b.columns, k_);
      else apply(b, F(-1), x, b.columns, y, b.rows, k_);
    });
  }

  // f(cluster, begin, end): what rank `of` has of the rows of clusters whose cell of the diagonal is `at`'s.
  template <class G>
  void shared(int of, int at, G&& f) const {
    const Local first = Local(cuts_[std::size_t(of)]), last = Local(cuts_[std::size_t(of) + 1]);
    if (first == last) return;
    for (int i = c_.grid_.of(first); i < n_ && c_.grid_.begin(i) < last; ++i)
      if (c_.grid_.owner(i, i) == at) f(i, std::max(first, c_.grid_.begin(i)), std::min(last, c_.grid_.end(i)));
  }
  bool shares(int of, int at) const {
    bool any = false;
    shared(of, at, [&](int, Local, Local) { any = true; });
    return any;
  }
  template <bool Get, class S>
  void transfer(S* rows, Global kind) {
    const Local first = Local(cuts_[std::size_t(rank_)]), height = Local(cuts_[std::size_t(rank_) + 1]) - first;
    const auto row = [&](Local p, Local c) { return rows + std::size_t(c) * std::size_t(height) + (p - first); };
    const auto element = [&](int i, Local p, Local c) {
      return x_[std::size_t(i)].data() + std::size_t(c) * std::size_t(c_.grid_.size(i)) + (p - c_.grid_.begin(i));
    };
    const auto each = [&](int of, int at, auto&& f) {
      shared(of, at, [&](int i, Local begin, Local end) {
        for (Local c = 0; c < k_; ++c) f(i, begin, end - begin, c);
      });
    };
    for (int to = 0; to < c_.comm_.size(); ++to) {
      const int of = Get ? rank_ : to, at = Get ? to : rank_;
      if (to == rank_ || !shares(of, at)) continue;
      std::vector<F> out;
      each(of, at, [&](int i, Local p, Local count, Local c) {
        const F* const numbers = Get ? row(p, c) : element(i, p, c);
        out.insert(out.end(), numbers, numbers + count);
      });
      const int ranks[] = {to};
      send(ranks, label(kind, 0, rank_), out);
    }
    for (int from = 0; from < c_.comm_.size(); ++from) {
      const int of = Get ? from : rank_, at = Get ? rank_ : from;
      if (!shares(of, at)) continue;
      const auto in = from == rank_ ? std::vector<F>() : take(label(kind, 0, from));
      const F* next = in.data();
      each(of, at, [&](int i, Local p, Local count, Local c) {
        if constexpr (Get) std::copy_n(from == rank_ ? row(p, c) : next, count, element(i, p, c));
        else std::copy_n(from == rank_ ? element(i, p, c) : next, count, row(p, c));
        next += from == rank_ ? 0 : count;
      });
    }
  }

  const Cells& c_;
  int n_, rank_;
  std::span<const Global> cuts_;
  Local k_;
  std::vector<std::vector<F>> x_;  // of clusters whose cell of the diagonal is here
  std::optional<comm::Mail> mail_;
  Global next_kind_ = 2;
};

template <Scalar F>
void Cells<F>::solve(std::span<const Step> steps, bool conjugate, std::span<const Global> cuts, F* rows,
                     Local k) const {
  Sweep sweep(*this, cuts, k);
  sweep.get(rows);
  for (const Step s : steps) {
    sweep.run(s);
    if (conjugate) sweep.conjugate();
  }
  sweep.put(rows);
}

template <Scalar F>
MessageCount Cells<F>::count_messages(std::span<const Step> steps, std::span<const Global> cuts) const {
  MessageCount count;
  const auto add = [&](Global numbers) { count.messages += 1, count.numbers += double(numbers); };
  const int me = comm_.rank();
  for (int other = 0; other < comm_.size(); ++other) {
    if (other == me) continue;
    Global there = 0, back = 0;
    for (int i = 0; i < grid_.count(); ++i) {
      const auto common = [&](int rank) {
        return std::max<Global>(0, std::min<Global>(cuts[std::size_t(rank) + 1], grid_.end(i)) -
                                       std::max<Global>(cuts[std::size_t(rank)], grid_.begin(i)));
      };
      if (grid_.owner(i, i) == other) there += common(me);
      if (grid_.owner(i, i) == me) back += common(other);
    }
    if (there > 0) add(there);
    if (back > 0) add(back);
  }
  for (const Step s : steps) {
    const Plan& p = plan(s);
    for (int i = 0; i < grid_.count(); ++i) {
      if (owns(i, i))
        for (std::size_t r = 0; r < p.readers[std::size_t(i)].size(); ++r) add(grid_.size(i));
      else if (p.sources[std::size_t(i)] > 0) add(grid_.size(i));
    }
  }
  return count;
}

template <Scalar F>
std::pair<double, std::complex<double>> Cells<F>::log_determinant() const {
  std::pair<double, std::complex<double>> all{0, 1};
  for (const auto& [place, cell] : own_) {
    if (place.first != place.second) continue;
    const auto [log, sign] = detail::log_determinant(*cell.root, cholesky_);
    all.first += log, all.second *= as_scalar<std::complex<double>>(std::complex<real_t<F>>(sign));
  }
  return all;
}

#define TACIT_INSTANTIATE(F) template class Cells<F>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond::detail
