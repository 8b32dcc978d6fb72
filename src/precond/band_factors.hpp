// A small matrix as the factors of its band: for levels whose rows have few entries.
#pragma once

#include "dense_inverse.hpp"

#include <memory>
#include <vector>

namespace tacit::precond {

/// Predicted seconds of the set-up and of so many solves, by counted work: with the factors of a band, with a dense
/// inverse whose rows are on `ranks` ranks, and with products over so many entries a solve.
inline constexpr double priced_solves = 20;
double seconds_of_band(double n, double lower, double upper);
double seconds_of_inverse(double n, int ranks);
double seconds_of_products(double entries);

/// The factors L U of a band of A, in reverse Cuthill-McKee order, with partial pivoting, in double precision. On
/// several ranks each has all factors. The same bits for any number of threads.
template <Scalar T>
class BandFactors {
 public:
  /// Null where a dense inverse is predicted to take less time for set-up and some solves, by counted work, and where A
  /// is singular to rounding or not far from it, which the dense inverse tells with more certainty. Local; the same on
  /// all ranks that have rows of A.
  static std::unique_ptr<BandFactors> make(const SmallMatrix<T>& A);
  /// u := A^-1 f. Collective: one reduction of n numbers a column; none where one rank has all rows. n (2 lower +
  /// upper) multiplications a column, `lower` and `upper` the bandwidths.
  void solve(const layout::Vector<T>& f, layout::Vector<T>& u) const;
  /// The rows of A^-1 on this rank: n solves. Local.
  op::Rows<T> rows() const;

 private:
  using W = double_t<T>;
  explicit BandFactors(const SmallMatrix<T>& A);
  void fill(const SmallMatrix<T>& A);
  bool factorise();
  double inverse_norm() const;
  void solve(W* x) const;
  void solve_adjoint(W* x) const;
  /// Row i of column j, i - j from -(lower + upper) to lower.
  W& at(std::size_t i, std::size_t j) { return band_[j * height_ + above_ + i - j]; }
  const W& at(std::size_t i, std::size_t j) const { return band_[j * height_ + above_ + i - j]; }

  std::size_t n_, begin_, own_rows_;
  bool one_rank_;
  std::vector<Local> old_of_new_;
  std::size_t lower_ = 0, upper_ = 0;   // bandwidths of A
  std::size_t above_ = 0, height_ = 0;  // rows above the diagonal that pivoting may fill; of a column
  std::vector<W> band_;                 // by columns
  std::vector<std::size_t> pivot_;
};

}  // namespace tacit::precond
