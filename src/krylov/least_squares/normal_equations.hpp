// The operator of the normal equations, for the methods that solve these.
#pragma once

#include "bidiagonalisation.hpp"

#include <tacit/op/compose.hpp>

#include <string>

namespace tacit::krylov {

/// y -> P^H (A^H A + damp^2 I) P y: Hermitian, positive semidefinite; its condition is that of (A; damp I) P squared.
/// Refers to the map. Cost: a product with A, one with A^H, two with P; with damp a sweep of three vectors. Vectors:
/// one of the range for each product in flight, with P two of the domain.
template <Scalar T, Memory M>
class NormalEquations final : public op::detail::Composition<T, M> {
  using V = Vector<T, M>;
  using typename op::detail::Composition<T, M>::Flight;

 public:
  explicit NormalEquations(const DampedMap<T, M>& map)
      : op::detail::Composition<T, M>(map.inner(), map.inner()), map_(map) {}
  std::string name() const override { return "normal equations"; }
  bool has_adjoint() const override { return true; }
  bool varies() const override { return false; }

 private:
  op::Cost cost_of(bool) const override {
    op::Cost c = map_.A().cost();
    const op::Cost back = map_.A().adjoint_cost();
    c.flops += back.flops, c.bytes += back.bytes, c.messages += back.messages, c.message_bytes += back.message_bytes;
    return c;
  }
  /// P x. The vectors of a flight: A P x, P x, A^H A P x.
  const V& along(Flight& flight, const V& x) const {
    return map_.P() ? flight.vector(1, map_.domain(), x.columns()) : x;
  }
  void first(Flight& flight, const V& x, V&, bool) const override {
    auto& image = flight.vector(0, map_.range(), x.columns());
    if (map_.P()) map_.P()->apply(x, flight.vector(1, map_.domain(), x.columns()));
    flight.start(map_.A(), along(flight, x), image, false);
  }
  void rest(Flight& flight, const V& x, V& y, bool) const override {
    flight.wait();
    auto& g = map_.P() ? flight.vector(2, map_.domain(), x.columns()) : y;
    flight.start(map_.A(), flight.vector(0, map_.range(), x.columns()), g, true);
    flight.wait();
    if (map_.damp() != 0) layout::axpy(T(real_t<T>(map_.damp() * map_.damp())), along(flight, x), g);
    if (map_.P()) map_.P()->apply_adjoint(g, y);
  }
  const DampedMap<T, M>& map_;
};

}  // namespace tacit::krylov
