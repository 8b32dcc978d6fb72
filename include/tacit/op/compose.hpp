// Compose: operators made of operators.
//
//   auto B = product(A, P);                     // B = A P
//   auto C = sum(T(2), A, T(-1), B);            // C = 2 A - B
//   auto H = shift(A, T(-k * k));               // H = A - k^2 I
//   auto N = product(adjoint(A), A);            // N = A^H A
//
// start() of a composition starts the product of one part; wait() does those of the others. So two products of a
// composition may be in flight even where one operator occurs in it several times.
#pragma once

#include <tacit/op/diagonal.hpp>
#include <tacit/op/noted.hpp>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tacit::op {

template <Scalar T, Memory M = Host>
using OperatorPointer = std::shared_ptr<const Operator<T, M>>;

namespace detail {

// The base of all compositions: two products in flight, each with its intermediate vectors. A composition varies where
// a part does, is intact where all parts are, and exists in double precision where all do.
template <Scalar T, Memory M>
class Composition : public Operator<T, M>, public Varying {
 public:
  Cost cost() const final { return cost_of(false); }
  Cost adjoint_cost() const final { return cost_of(true); }

 protected:
  struct Flight {
    bool busy = false;
    std::optional<Product<T, M>> part;
    std::deque<Vector<T, M>> between;
    /// The i-th intermediate vector, in `space` with `columns` columns; allocated when it does not fit.
    Vector<T, M>& vector(std::size_t i, const Space& space, int columns) {
      while (between.size() <= i) between.emplace_back(space, columns);
      if (between[i].columns() != columns || !(between[i].space() == space)) between[i] = Vector<T, M>(space, columns);
      return between[i];
    }
    /// Starts a part's product.
    void start(const Operator<T, M>& a, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) {
      static_cast<void>(part.emplace(adjoint ? a.start_adjoint(x, y) : a.start(x, y)));
    }
    void wait() {
      part->wait();
      part.reset();
    }
  };
  using Operator<T, M>::Operator;
  virtual Cost cost_of(bool adjoint) const = 0;
  /// Starts the first part's product.
  virtual void first(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const = 0;
  /// Waits for it and completes the composition's product.
  virtual void rest(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const = 0;

  int begin(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const final {
    const int token = flights_[0].busy ? 1 : 0;
    Flight& flight = flights_[token];
    require(!flight.busy, "two products of the ", this->name(),
            " operator are already under way; wait for one of them first");
    flight.busy = true;
    try {
      first(flight, x, y, adjoint);
    } catch (...) {
      abandon(token);
      throw;
    }
    return token;
  }
  void finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int token) const final {
    try {
      rest(flights_[token], x, y, adjoint);
    } catch (...) {
      abandon(token);
      throw;
    }
    flights_[token].busy = false;
  }
  void abandon(int token) const noexcept final {
    Flight& flight = flights_[token];
    if (flight.part) flight.part->give_up();
    flight.part.reset();
    flight.busy = false;
  }

 private:
  mutable Flight flights_[2];
};

// The base of compositions around one operator: forwards products and diagonal.
template <Scalar T, Memory M>
class Around : public Composition<T, M> {
 public:
  bool has_adjoint() const override { return a_->has_adjoint(); }
  bool has_diagonal() const override { return a_->has_diagonal(); }
  std::vector<T> diagonal() const override { return a_->diagonal(); }
  double largest() const override { return a_->largest(); }
  std::string fault() const override { return a_->fault(); }
  bool intact() const override { return a_->intact(); }
  bool varies() const override { return op::varies(a_.get()); }

 protected:
  using typename Composition<T, M>::Flight;
  Around(const Space& range, const Space& domain, OperatorPointer<T, M> a)
      : Composition<T, M>(range, domain), a_(std::move(a)) {}
  Cost cost_of(bool adjoint) const override { return adjoint ? a_->adjoint_cost() : a_->cost(); }
  void first(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const override {
    flight.start(*a_, x, y, adjoint);
  }
  void rest(Flight& flight, const Vector<T, M>&, Vector<T, M>&, bool) const override { flight.wait(); }
  OperatorPointer<T, M> a_;
};

}  // namespace detail

/// x -> A (B x). Cost: that of both products. Vectors: one for each product in flight.
template <Scalar T, Memory M = Host>
class ProductOf final : public detail::Composition<T, M> {
 public:
  /// Error(usage) unless B's range is A's domain.
  ProductOf(OperatorPointer<T, M> a, OperatorPointer<T, M> b);
  std::string name() const override { return a_->name() + " * " + b_->name(); }
  bool varies() const override { return op::varies(a_.get()) || op::varies(b_.get()); }
  bool has_adjoint() const override { return a_->has_adjoint() && b_->has_adjoint(); }
  std::string fault() const override;
  bool intact() const override { return a_->intact() && b_->intact(); }
  std::shared_ptr<const Operator<in_double_t<T>, M>> in_double() const override;

 private:
  using typename detail::Composition<T, M>::Flight;
  Cost cost_of(bool adjoint) const override;
  void first(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const override;
  void rest(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const override;
  OperatorPointer<T, M> a_, b_;
};

/// x -> alpha A x + beta B x. Cost: both products and a sweep of three vectors. Vectors: one for each product in
/// flight.
template <Scalar T, Memory M = Host>
class Sum final : public detail::Composition<T, M> {
 public:
  /// Error(usage) unless both have the same domain and the same range.
  Sum(T alpha, OperatorPointer<T, M> a, T beta, OperatorPointer<T, M> b);
  std::string name() const override { return a_->name() + " + " + b_->name(); }
  bool varies() const override { return op::varies(a_.get()) || op::varies(b_.get()); }
  bool has_adjoint() const override { return a_->has_adjoint() && b_->has_adjoint(); }
  bool has_diagonal() const override { return a_->has_diagonal() && b_->has_diagonal(); }
  std::vector<T> diagonal() const override;
  /// The bound |alpha| largest(A) + |beta| largest(B), with |.| of real plus imaginary parts; 0 when either is unknown.
  double largest() const override;
  std::string fault() const override;
  bool intact() const override { return a_->intact() && b_->intact(); }
  std::shared_ptr<const Operator<in_double_t<T>, M>> in_double() const override;

 private:
  using typename detail::Composition<T, M>::Flight;
  Cost cost_of(bool adjoint) const override;
  void first(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const override;
  void rest(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const override;
  T alpha_, beta_;
  OperatorPointer<T, M> a_, b_;
};

/// x -> A x + sigma x, A square. Cost: the product with A and a sweep of three vectors.
template <Scalar T, Memory M = Host>
class Shifted final : public detail::Around<T, M> {
 public:
  /// Error(usage) unless A's domain is its range.
  Shifted(OperatorPointer<T, M> a, T sigma);
  std::string name() const override { return this->a_->name() + " shifted"; }
  std::vector<T> diagonal() const override;
  /// largest(A) + |sigma|; 0 when A's is unknown.
  double largest() const override;
  std::string fault() const override;
  std::shared_ptr<const Operator<in_double_t<T>, M>> in_double() const override;

 private:
  using typename detail::Composition<T, M>::Flight;
  Cost cost_of(bool adjoint) const override;
  void rest(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const override;
  T sigma_;
};

/// x -> A^H x; its adjoint is A x. Cost: that of A^H x.
template <Scalar T, Memory M = Host>
class Adjoint final : public detail::Around<T, M> {
 public:
  /// Error(usage) when A has no adjoint product.
  explicit Adjoint(OperatorPointer<T, M> a);
  std::string name() const override { return "adjoint of " + this->a_->name(); }
  std::vector<T> diagonal() const override;
  std::shared_ptr<const Operator<in_double_t<T>, M>> in_double() const override;

 private:
  using typename detail::Composition<T, M>::Flight;
  Cost cost_of(bool adjoint) const override { return detail::Around<T, M>::cost_of(!adjoint); }
  void first(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const override {
    flight.start(*this->a_, x, y, !adjoint);
  }
};

/// x -> A^T x = conj(A^H conj(x)), without conjugation; its adjoint is conj(A conj(x)). For complex scalars two sweeps
/// of two vectors in addition to A^H, and one vector for each product in flight; for real ones the same as Adjoint.
template <Scalar T, Memory M = Host>
class Transpose final : public detail::Around<T, M> {
 public:
  /// Error(usage) when A has no adjoint product.
  explicit Transpose(OperatorPointer<T, M> a);
  std::string name() const override { return "transpose of " + this->a_->name(); }
  std::shared_ptr<const Operator<in_double_t<T>, M>> in_double() const override;

 private:
  using typename detail::Composition<T, M>::Flight;
  Cost cost_of(bool adjoint) const override;
  void first(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const override;
  void rest(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const override;
};

/// x -> x. One copy.
template <Scalar T, Memory M = Host>
class Identity final : public Operator<T, M> {
 public:
  explicit Identity(Space space) : Operator<T, M>(space, space) {}
  std::string name() const override { return "identity"; }
  bool has_adjoint() const override { return true; }
  bool has_diagonal() const override { return true; }
  std::vector<T> diagonal() const override { return std::vector<T>(std::size_t(this->range().local_size()), T(1)); }
  double largest() const override { return 1; }
  std::shared_ptr<const Operator<in_double_t<T>, M>> in_double() const override;
  Cost cost() const override { return {0, 2.0 * this->range().local_size() * sizeof(T), 0, 0}; }

 protected:
  int begin(const Vector<T, M>&, Vector<T, M>&, bool) const override { return 0; }
  void finish(const Vector<T, M>& x, Vector<T, M>& y, bool adjoint, int token) const override;
};

/// x -> D_l A D_r x with diagonal D_l, D_r. Cost: the product with A, and a sweep for each diagonal. Vectors: one for
/// each product in flight.
template <Scalar T, Memory M = Host>
class DiagonalScaled final : public detail::Around<T, M> {
 public:
  /// One column each, `left` of A's range and `right` of its domain; Error(usage) otherwise.
  DiagonalScaled(Vector<T, M> left, OperatorPointer<T, M> a, Vector<T, M> right);
  std::string name() const override { return this->a_->name() + " scaled"; }
  std::vector<T> diagonal() const override;
  double largest() const override { return 0; }  // not known
  bool intact() const override { return this->a_->intact() && left_.intact() && right_.intact(); }
  std::shared_ptr<const Operator<in_double_t<T>, M>> in_double() const override;

 private:
  using typename detail::Composition<T, M>::Flight;
  Cost cost_of(bool adjoint) const override;
  void first(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const override;
  void rest(Flight& flight, const Vector<T, M>& x, Vector<T, M>& y, bool adjoint) const override;
  Diagonal<T, M> left_, right_;
};

// ---- functions that make compositions, from pointers to any kind of operator ----

template <class A>
concept AnOperator = std::derived_from<A, Operator<typename A::scalar, typename A::memory>>;
template <class A>
using pointer_of = OperatorPointer<typename A::scalar, typename A::memory>;

template <AnOperator A, AnOperator B>
auto product(std::shared_ptr<A> a, std::shared_ptr<B> b) {
  return std::make_shared<const ProductOf<typename A::scalar, typename A::memory>>(std::move(a), std::move(b));
}
template <AnOperator A, AnOperator B>
auto sum(typename A::scalar alpha, std::shared_ptr<A> a, typename A::scalar beta, std::shared_ptr<B> b) {
  return std::make_shared<const Sum<typename A::scalar, typename A::memory>>(alpha, std::move(a), beta, std::move(b));
}
template <AnOperator A>
auto shift(std::shared_ptr<A> a, typename A::scalar sigma) {
  return std::make_shared<const Shifted<typename A::scalar, typename A::memory>>(std::move(a), sigma);
}
template <AnOperator A>
auto adjoint(std::shared_ptr<A> a) {
  return std::make_shared<const Adjoint<typename A::scalar, typename A::memory>>(std::move(a));
}
template <AnOperator A>
auto transpose(std::shared_ptr<A> a) {
  return std::make_shared<const Transpose<typename A::scalar, typename A::memory>>(std::move(a));
}
template <AnOperator A>
auto scale(Vector<typename A::scalar, typename A::memory> left, std::shared_ptr<A> a,
           Vector<typename A::scalar, typename A::memory> right) {
  return std::make_shared<const DiagonalScaled<typename A::scalar, typename A::memory>>(std::move(left), std::move(a),
                                                                                        std::move(right));
}

}  // namespace tacit::op
