// A solve that knows the null space of its matrix: what is checked and taken out of b, and the projections after each
// apply. Part of solve_impl.hpp.
#pragma once

#include <tacit/krylov/null_space.hpp>
#include <tacit/op/compose.hpp>

namespace tacit::krylov {
namespace {

/// x -> (I - Q Q^H) A x. Refers to A and Q. Cost: the product, one reduction and two passes over Q. Its adjoint is A^H,
/// for a Q with A^H Q = 0.
template <Scalar T, Memory M>
class Projecting final : public op::detail::Around<T, M> {
 public:
  Projecting(const op::Operator<T, M>& a, const Orthonormal<T, M>& q)
      : op::detail::Around<T, M>(a.range(), a.domain(), op::OperatorPointer<T, M>(std::shared_ptr<void>(), &a)),
        q_(q) {}
  std::string name() const override { return this->a_->name(); }
  double accuracy() const override { return this->a_->accuracy(); }

 private:
  using typename op::detail::Composition<T, M>::Flight;
  void rest(Flight& flight, const Vector<T, M>&, Vector<T, M>& y, bool adjoint) const override {
    flight.wait();
    if (!adjoint) q_.project(y);
  }
  const Orthonormal<T, M>& q_;
};

/// A power of two near the largest element, so that squares of v 2^-e neither overflow nor vanish. Collective.
template <Scalar T, Memory M>
int exponent_of(const Vector<T, M>& v) {
  const double largest = layout::max_norm(v);
  return largest > 0 && std::isfinite(largest) ? std::ilogb(largest) : 0;
}

struct Part {
  double norm = 0, share = 0;  // ||Q^H v||, and this over ||v||, which may overflow where it does not
};
/// v := v - Q Q^H v, twice, so that also a small rest is orthogonal to Q. What was taken out. Collective.
template <Scalar T, Memory M>
Part take_out(const Orthonormal<T, M>& q, Vector<T, M>& v) {
  const int e = exponent_of(v);
  scale_by_power(v, -e);
  const double before = layout::norm(v), part = q.project(v);
  q.project(v);
  if (layout::norm(v) <= 16 * double(std::numeric_limits<real_t<T>>::epsilon()) * before) layout::fill(v, T(0));
  scale_by_power(v, e);
  return {std::ldexp(part, e), before > 0 ? part / before : 0};
}

/// Checks the null space, projects b and x0, and puts projections after applies: of P, or of A where there is no P.
/// Error(usage): A v or A^H w is not zero. A product for each vector, and one more. Collective.
template <Scalar T, Memory M>
void Solve<T, M>::enter_null_space() {
  if constexpr (is_group<M>) {
    throw Error(ErrorKind::usage, "a solve on a group of devices takes no null space");
  } else {
    const double limit = std::max(4096 * double(std::numeric_limits<real_t<T>>::epsilon()), 4 * given_A_->accuracy());
    Vector<T, M> q(space_), image(space_);
    scatter(q, 1);
    A_->apply(q, image);
    const double size = layout::norm(image) / layout::norm(q);
    // Of a size that is zero where A is.
    const auto part = [](double left, double of) { return left == 0 ? 0 : left / of; };
    // (w, A q) is zero for every q where A^H w is; here for a pseudo-random one.
    const auto of_range = [&](const Vector<T, M>& w) {
      return part(double(std::abs(layout::dot(image, w))), layout::norm(image));
    };
    int which = 0;
    bool both = true;
    for (const auto& v : null_->right().vectors()) {
      both = both && of_range(v) <= limit;
      A_->apply(v, q);
      const double left = part(layout::norm(q), size);
      require(left <= limit, "null-space vector ", which++, " is not in the null space of A: ||A v|| is ", about(left),
              " of ||A|| ||v||, and ", about(limit), " is allowed for rounding");
    }
    which = 0;
    for (const auto& w : null_->left().vectors()) {
      const double left = of_range(w);
      require(left <= limit, "left null-space vector ", which++,
              " is not orthogonal to the range of A: (w, A q) is about ", about(left), " of ||w|| ||A q||, and ",
              about(limit), " is allowed for rounding");
    }
    left_ = null_->left().dimension() > 0 ? &null_->left() : both ? &null_->right() : nullptr;
    report_.null_space = null_->right().dimension();
    take_out(null_->right(), x_);
    if (left_) {
      const Part taken = take_out(*left_, b_);
      report_.projected_norm = taken.norm;
      if (taken.share > 100 * double(std::numeric_limits<real_t<T>>::epsilon()))
        report_.warnings.push_back(
            message("a part of b of norm ", about(taken.norm), ", ", about(taken.share),
                    " of ||b||, is orthogonal to the range of A and was taken out: x is a least-squares solution, and "
                    "residuals are those of the rest of b"));
    }
    if (P_) {
      null_P_ = std::make_unique<Projecting<T, M>>(*P_, null_->right());
      P_ = given_P_ = null_P_.get();
    } else if (left_) {
      null_A_ = std::make_unique<Projecting<T, M>>(*A_, *left_);
      A_ = given_A_ = null_A_.get();
    }
  }
}

}  // namespace
}  // namespace tacit::krylov
