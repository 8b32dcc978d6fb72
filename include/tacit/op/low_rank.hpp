// LowRank: a product of a tall and a wide matrix, stored as its factors.
#pragma once

#include <tacit/op/operator.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tacit::op {

/// x -> U (V^H x), with k columns in U and V. As A + U V^H (op/compose.hpp): a matrix and a correction of few vectors.
/// A product starts with V^H x and one reduction of k numbers a column, which is in flight until wait(); no other
/// messages. It reads U and V once, beside both vectors. The same bits for any number of threads. Memory: U and V.
/// Host.
template <Scalar T>
class LowRank final : public Operator<T, Host> {
 public:
  /// U in the range, V in the domain. Error(usage) unless both have the same number of columns, and spaces of one
  /// communicator. Collective.
  LowRank(Vector<T> U, Vector<T> V);
  std::string name() const override { return "low-rank"; }
  int rank() const { return U_.columns(); }
  bool has_adjoint() const override { return true; }
  /// Where both are in one space.
  bool has_diagonal() const override { return this->range() == this->domain(); }
  std::vector<T> diagonal() const override;
  /// A bound: the largest entries of the columns of U times those of V.
  double largest() const override { return largest_; }
  std::string fault() const override { return fault_; }
  /// Of U and V.
  bool intact() const override { return checksum() == made_; }
  std::shared_ptr<const Operator<in_double_t<T>, Host>> in_double() const override;
  Cost cost() const override;

 protected:
  int begin(const Vector<T>& x, Vector<T>& y, bool adjoint) const override;
  void finish(const Vector<T>& x, Vector<T>& y, bool adjoint, int token) const override;
  void abandon(int token) const noexcept override;

 private:
  struct Flight {
    std::optional<comm::PendingSum> sums;
    std::vector<T> coefficients;  // V^H x: a row for each column of V
  };
  std::uint64_t checksum() const;
  Vector<T> U_, V_;
  double largest_ = 0;
  std::string fault_;
  std::uint64_t made_ = 0;
  mutable Flight flights_[2];
};

}  // namespace tacit::op
