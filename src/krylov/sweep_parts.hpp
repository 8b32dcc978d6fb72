// Two vectors in parts, one for each thread, and sweeps over them that multiply several times without waiting: what
// the sweeps of s-step CG and of s-step BiCGStab share. A part also has the rows around its own that these products
// need, of other threads and of other ranks, and computes them itself.
//
//   struct MyPart : SweepPart<T> { .. };                        // with further arrays
//   class MySweeps : public SweepParts<T, MyPart> { .. };       // A (op::RowsAround), P, products, threads
//
//   this->exchange();                                           // p and z of the rows around
//   this->begin_sums(width);
//   this->each_part([&](MyPart& part) {                         // each on a thread
//     wave_.run(part.levels(s), part.next, [&](int level, int block) {
//       ..                                                      // of rows row(block) .. row(block + 1)
//       if (part.owns(block)) add(part.begin, part.end, this->group_sums(block));
//     });
//   });
//   this->add_up(to);                                           // the same bits for any number of threads
#pragma once

#include <tacit/base/trace.hpp>
#include <tacit/exec/pairs.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/exec/tasks.hpp>
#include <tacit/op/local_matrix.hpp>
#include "op/rows_around.hpp"
#include "op/wavefront.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace tacit::krylov {

/// Rows of p and z, of which a thread computes its own and, as far as later products need them, those around.
template <Scalar T>
struct SweepPart {
  std::vector<op::BlockRange> range;    // of levels with .., 1, 0 levels behind them; the last: its own
  Local first = 0, begin = 0, end = 0;  // of its arrays; own rows
  exec::Array<T, Host> p, z;
  std::vector<int> next;                                     // work space of a wavefront
  std::vector<std::pair<std::size_t, Local>> sends, ghosts;  // places in a message, and rows

  /// Row i of an array is of(array)[i].
  T* of(exec::Array<T, Host>& v) const { return v.data() - first; }
  const T* of(const exec::Array<T, Host>& v) const { return v.data() - first; }
  Local rows() const { return Local(p.size()); }
  bool owns(int block) const { return block >= range.back().begin && block < range.back().end; }
  /// The blocks of so many levels, the last of which ends with its own ones.
  std::span<const op::BlockRange> levels(int count) const { return std::span(range).last(std::size_t(count)); }
};

/// p and z = P r (r, where there is no P) of this rank's rows and those around them, in parts. Sums are formed for
/// groups of blocks, whose bounds do not depend on the number of threads.
template <Scalar T, class Part>
class SweepParts {
 public:
  using W = exec::wide_t<T>;

  /// A, for at least `most` products after an exchange. P: the elements of a diagonal, null where there is none; one
  /// exchange on several ranks. Fewer threads are used where these would compute more than a quarter of their rows
  /// twice. Collective.
  SweepParts(const op::RowsAround<T>& A, const layout::Vector<T>* P, int most, int threads);

  int parts() const { return int(part_.size()); }
  /// z := P r for this residual; p stays.
  void set_residual(const T* r);
  /// to := r
  void copy_residual(T* to) const;

 protected:
  const op::LocalMatrix<T>& A() const { return around_.matrix(); }
  bool on_ranks() const { return around_.levels() > 0; }
  /// The first row of a block; that behind the last one, too.
  Local row(int block) const { return first_row_[std::size_t(block)]; }
  /// The first of this rank's rows: row i of the matrix is row i - first_own() of a vector of the caller.
  Local first_own() const { return around_.begin(); }
  Local rows_of_longest_block() const;
  /// P and P^-1 of all rows of the matrix; null where there is no P. An element of 0 has 0 as its inverse.
  bool scaled() const { return scaling_.size() > 0; }
  const T* scaling() const { return scaling_.data(); }
  const T* inverse() const { return weights_.data(); }

  /// f(part) for all of them, each on a thread.
  template <class F>
  void each_part(F&& f);
  /// Gets the rows of p and z that other ranks and threads have. Collective.
  void exchange();

  /// Sums of this rank's rows, so many for each group of blocks, begin with 0; those of the group of a block; their
  /// totals, group after group.
  void begin_sums(std::size_t width) { width_ = width, partial_.assign(groups() * width, W(0)); }
  W* group_sums(int block) { return partial_.data() + group_of(block) * width_; }
  void add_up(std::span<W> to) const;
  /// Whether a block is the first, or the last, of a group.
  bool begins_group(int block) const { return (block - own_.begin) % group == 0; }
  bool ends_group(int block) const { return block + 1 == own_.end || begins_group(block + 1); }

  /// Notes a sweep that moves the matrix and so many vectors, with so many products of one vector and so many other
  /// operations for each row.
  void note(const char* name, int products, int vectors, int operations) const {
    if (!Trace::on()) return;
    const double n = double(around_.rows());
    Trace::work(name, A().bytes() + vectors * n * sizeof(T),
                (is_complex<T> ? 4 : 1) * (2.0 * products * double(A().entries()) + operations * n));
  }

  op::Needs needs_;     // of a product
  op::Wavefront wave_;  // of `most` products
  std::vector<Part> part_;

 private:
  static constexpr int group = 16;  // blocks whose sums are formed together
  std::size_t group_of(int block) const { return std::size_t((block - own_.begin) / group); }
  std::size_t groups() const { return std::size_t((own_.count() + group - 1) / group); }
  /// Cuts the rows into parts. Rows that they compute beside their own, on average over the levels, for each own row.
  double divide(int most, int parts);
  void find_messages();
  void set_scaling(const layout::Vector<T>& P);

  const op::RowsAround<T>& around_;
  std::vector<Local> first_row_;
  op::BlockRange own_{0, 0};                // blocks with rows of this rank
  exec::Array<T, Host> scaling_, weights_;  // P and P^-1
  std::size_t width_ = 0;
  std::vector<W> partial_;
};

template <Scalar T, class Part>
SweepParts<T, Part>::SweepParts(const op::RowsAround<T>& A, const layout::Vector<T>* P, int most, int threads)
    : around_(A) {
  const auto& matrix = A.matrix();
  op::needs_of_product(matrix, needs_);
  wave_.begin(matrix.blocks());
  wave_.add(needs_, most - 1);
  first_row_.assign(1, 0);
  for (int b = 0; b < matrix.blocks(); ++b) first_row_.push_back(matrix.first_row(b + 1));
  own_ = op::blocks_of(matrix, A.begin(), A.end());
  const double alone = divide(most, 1);
  for (int parts = threads; parts > 1; parts /= 2)
    if (divide(most, parts) <= alone + 0.25) break;
    else divide(most, 1);
  for (Part& part : part_)
    for (auto* v : {&part.p, &part.z})
      *v = exec::Array<T, Host>::uninitialised(std::size_t(row(part.range.front().end) - part.first));
  if (A.exchange(1)) find_messages();
  if (P) set_scaling(*P);
}

template <Scalar T, class Part>
double SweepParts<T, Part>::divide(int most, int parts) {
  const int groups = int(this->groups());
  parts = std::max(1, std::min(parts, groups));
  double computed = 0;
  part_.clear(), part_.resize(std::size_t(parts));
  for (int i = 0; i < parts; ++i) {
    Part& part = part_[std::size_t(i)];
    const auto cut = [&](int k) {
      return std::min(own_.end, own_.begin + int(std::int64_t(groups) * k / parts) * group);
    };
    const auto own_row = [&](int block) { return std::clamp(row(block), around_.begin(), around_.end()); };
    part.range = op::blocks_around(needs_, {cut(i), cut(i + 1)}, most);
    std::reverse(part.range.begin(), part.range.end());
    part.first = row(part.range.front().begin);
    part.begin = own_row(cut(i)), part.end = own_row(cut(i + 1));
    for (const auto& range : part.levels(most))
      if (range.count() > 0) computed += row(range.end) - row(range.begin) - (part.end - part.begin);
  }
  const double own = double(around_.end() - around_.begin());
  return own > 0 ? computed / (double(most) * own) : 0;
}

/// Which parts have the rows that are sent to other ranks, and those that arrive from them.
template <Scalar T, class Part>
void SweepParts<T, Part>::find_messages() {
  const auto& pattern = around_.exchange(1)->pattern();
  for (Part& part : part_) {
    for (std::size_t i = 0; i < pattern.send_index.size(); ++i) {
      const Local row = around_.begin() + pattern.send_index[i];
      if (row >= part.begin && row < part.end) part.sends.emplace_back(i, row);
    }
    for (Local i = 0; i < pattern.ghost_count(); ++i) {
      const Local row = around_.row_of(i);
      if (row >= part.first && row < part.first + part.rows()) part.ghosts.emplace_back(std::size_t(i), row);
    }
  }
}

template <Scalar T, class Part>
void SweepParts<T, Part>::set_scaling(const layout::Vector<T>& P) {
  const std::size_t rows = std::size_t(around_.rows());
  scaling_ = exec::Array<T, Host>(rows), weights_ = exec::Array<T, Host>(rows);
  std::copy_n(P.data(), P.size(), scaling_.data() + around_.begin());
  if (comm::Exchange* const e = around_.exchange(1)) {
    const int number = e->open();
    e->post(number, P.data());
    e->wait(number);
    const T* const in = reinterpret_cast<const T*>(e->incoming(number));
    for (Local i = 0; i < e->pattern().ghost_count(); ++i) scaling_.data()[around_.row_of(i)] = in[i];
    e->close(number);
  }
  for (std::size_t i = 0; i < rows; ++i) {
    const T d = scaling_.data()[i];
    weights_.data()[i] = d == T(0) ? T(0) : T(1) / d;  // z is 0 there, and so is P A of anything
  }
}

template <Scalar T, class Part>
Local SweepParts<T, Part>::rows_of_longest_block() const {
  Local longest = 0;
  for (int b = 0; b < A().blocks(); ++b) longest = std::max(longest, row(b + 1) - row(b));
  return longest;
}

template <Scalar T, class Part>
template <class F>
void SweepParts<T, Part>::each_part(F&& f) {
  const exec::Tasks::InOrder in_order(true);
  exec::parallel_for(part_.size(), part_.size() > 1, [&](std::size_t i) { f(part_[i]); });
}

template <Scalar T, class Part>
void SweepParts<T, Part>::set_residual(const T* r) {
  each_part([&](Part& part) {
    T* const z = part.of(part.z);
    for (Local k = part.begin; k < part.end; ++k)
      z[k] = scaled() ? scaling()[k] * r[k - first_own()] : r[k - first_own()];
  });
}

template <Scalar T, class Part>
void SweepParts<T, Part>::copy_residual(T* to) const {
  const exec::Tasks::InOrder in_order(true);
  exec::parallel_for(part_.size(), part_.size() > 1, [&](std::size_t i) {
    const Part& part = part_[i];
    const T* const z = part.of(part.z);
    for (Local k = part.begin; k < part.end; ++k) to[k - first_own()] = scaled() ? inverse()[k] * z[k] : z[k];
  });
}

template <Scalar T, class Part>
void SweepParts<T, Part>::exchange() {
  const exec::Tasks::InOrder in_order(true);
  comm::Exchange* const e = around_.exchange(2);
  const int number = e ? e->open() : 0;
  if (e) {
    T* const out = reinterpret_cast<T*>(e->outgoing(number));
    for (Part& part : part_)
      for (const auto& [i, row] : part.sends) out[2 * i] = part.of(part.p)[row], out[2 * i + 1] = part.of(part.z)[row];
    e->post(number);
  }
  if (part_.size() > 1)
    each_part([&](Part& part) {
      const Local last = part.first + part.rows();
      for (const Part& from : part_) {
        const Local begin = std::max(from.begin, part.first), end = std::min(from.end, last);
        if (&from == &part || begin >= end) continue;
        std::copy_n(from.of(from.p) + begin, end - begin, part.of(part.p) + begin);
        std::copy_n(from.of(from.z) + begin, end - begin, part.of(part.z) + begin);
      }
    });
  if (!e) return;
  e->wait(number);
  const T* const in = reinterpret_cast<const T*>(e->incoming(number));
  for (Part& part : part_)
    for (const auto& [i, row] : part.ghosts) part.of(part.p)[row] = in[2 * i], part.of(part.z)[row] = in[2 * i + 1];
  e->close(number);
}

template <Scalar T, class Part>
void SweepParts<T, Part>::add_up(std::span<W> to) const {
  std::fill(to.begin(), to.end(), W(0));
  for (std::size_t g = 0; g < groups(); ++g)
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += partial_[g * width_ + i];
}

}  // namespace tacit::krylov
