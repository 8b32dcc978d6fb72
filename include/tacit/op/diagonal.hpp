// Diagonal: multiplication with a diagonal matrix.
#pragma once

#include <tacit/exec/checksum.hpp>
#include <tacit/exec/sweep.hpp>
#include <tacit/op/operator.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tacit::op {

namespace formula {
template <class T>
struct Times {  // y = d x
  TACIT_HD void operator()(T d, T x, T& y) const { y = d * x; }
};
template <class T>
struct ConjugateTimes {
  TACIT_HD void operator()(T d, T x, T& y) const { y = conj(d) * x; }
};
template <class T>
struct TimesInPlace {
  TACIT_HD void operator()(T d, T& y) const { y = d * y; }
};
template <class T>
struct ConjugateTimesInPlace {
  TACIT_HD void operator()(T d, T& y) const { y = conj(d) * y; }
};
}  // namespace formula

/// x -> D x, D diagonal. Products send no messages. One sweep of three vectors, which methods may fold into theirs
/// (pointwise()). Memory: 1 vector, and a copy of D with k columns for each number k > 1 of columns in use.
template <Scalar T, Memory M = Host>
class Diagonal : public Operator<T, M> {
 public:
  /// d has one column; Error(usage) otherwise. Collective (agrees on largest() and fault()).
  explicit Diagonal(Vector<T, M> d, std::string name = "diagonal")
      : Operator<T, M>(d.space(), d.space()), name_(std::move(name)) {
    const auto& comm = d.space().comm();
    comm::collective(comm, [&] {
      require(d.columns() == 1, "a diagonal with ", d.columns(), " columns");
      const auto values = d.to_host();
      Global at = d.space().size();
      for (std::size_t i = 0; i < values.size(); ++i) {
        largest_ = std::max({largest_, double(std::abs(std::real(values[i]))), double(std::abs(std::imag(values[i])))});
        if (!is_finite(values[i])) at = std::min(at, d.space().begin() + Global(i));
      }
      largest_ = comm.all_max(largest_);
      at = comm.all_min(at);
      if (at < d.space().size())
        fault_ = message("the diagonal has a value that is not finite at row ", at, " (counted from 0)");
    });
    by_columns_.emplace(1, std::move(d));
    made_ = checksum();
  }
  std::string name() const override { return name_; }
  bool has_adjoint() const override { return true; }
  bool has_diagonal() const override { return true; }
  std::vector<T> diagonal() const override { return values(1).to_host(); }
  const Vector<T, M>* pointwise() const override { return &values(1); }
  bool as_tasks() const override { return true; }
  double largest() const override { return largest_; }
  std::string fault() const override { return fault_; }
  /// Of D, in host memory.
  bool intact() const override { return checksum() == made_; }
  std::shared_ptr<const Operator<in_double_t<T>, M>> in_double() const override {
    if constexpr (std::same_as<real_t<T>, float> && std::same_as<M, Host>)
      return std::make_shared<const Diagonal<in_double_t<T>, M>>(layout::in_double(values(1)), name_);
    else return nullptr;
  }
  Cost cost() const override {
    const double n = this->range().local_size();
    return {.flops = (is_complex<T> ? 6 : 1) * n, .bytes = 3 * n * sizeof(T)};
  }

  /// D as a vector of `columns` equal columns.
  const Vector<T, M>& values(int columns) const {
    auto found = by_columns_.find(columns);
    if (found == by_columns_.end()) {
      const auto one = values(1).to_host();
      std::vector<T> all(one.size() * std::size_t(columns));
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = one[i / std::size_t(columns)];
      Vector<T, M> made(this->domain(), columns);
      made.assign(all);
      found = by_columns_.emplace(columns, std::move(made)).first;
    }
    return found->second;
  }
  /// y = D x, or D^H x; y may be x.
  void multiply(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const {
    using namespace exec;
    const auto& d = values(x.columns());
    if (&x == &y) {
      if (adjoint) sweep(reads(d), updates(y), writes(), formula::ConjugateTimesInPlace<T>{});
      else sweep(reads(d), updates(y), writes(), formula::TimesInPlace<T>{});
    } else if (adjoint) sweep(reads(d, x), updates(), writes(y), formula::ConjugateTimes<T>{});
    else sweep(reads(d, x), updates(), writes(y), formula::Times<T>{});
  }

 protected:
  int begin(const Vector<T, M>&, Vector<T, M>&, bool) const override { return 0; }
  void finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int) const override { multiply(x, y, adjoint); }

 private:
  std::uint64_t checksum() const {
    if constexpr (std::same_as<M, Host>) return exec::Checksum().add(values(1)).value();
    else return 0;
  }
  std::string name_;
  std::uint64_t made_ = 0;
  double largest_ = 0;
  std::string fault_;
  mutable std::map<int, Vector<T, M>> by_columns_;
};

}  // namespace tacit::op
