// Preconditioners of H-matrices, and inner methods, for Python: operators with a report.
#include "described.hpp"

#include <nanobind/stl/complex.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <tacit/op/hmatrix/algebra.hpp>
#include <tacit/precond/hmatrix/algebra.hpp>
#include <tacit/precond/hmatrix/request.hpp>

namespace tacit::python {
namespace {

using precond::HMatrixRequest;

template <Scalar T>
void bind_scalar(nb::module_& m) {
  using Base = op::Operator<T>;
  using HMatrix = op::HMatrix<T>;
  using Hlu = precond::Hlu<T>;
  using BlockDiagonal = precond::BlockDiagonal<T>;
  using Inner = krylov::Inner<T>;

  nb::class_<Hlu, Base>(m, named<T>("Hlu").c_str()).def_prop_ro("report", [](const Hlu& p) {
    const auto& r = p.report();
    return dict_of("bytes", r.bytes, "dense_blocks", r.dense_blocks, "low_rank_blocks", r.low_rank_blocks, "mean_rank",
                   r.mean_rank, "max_rank", r.max_rank, "replaced_pivots", r.perturbed, "precision",
                   r.single ? "single" : "full", "factors", r.cholesky ? "cholesky" : "lu", "shift", r.shift,
                   "log_determinant", r.log_determinant, "sign", r.sign, "most_bytes", r.most_bytes, "messages",
                   r.messages, "message_bytes", r.message_bytes, "seconds", r.seconds, "note", p.note());
  });
  nb::class_<BlockDiagonal, Base>(m, named<T>("BlockDiagonal").c_str())
      .def_prop_ro("report", [](const BlockDiagonal& p) {
        return dict_of("bytes", p.bytes(), "blocks", p.blocks(), "note", p.note());
      });
  nb::class_<Inner, Base>(m, named<T>("Inner").c_str()).def_prop_ro("report", [](const Inner& p) {
    const auto r = in_turn(p.range().comm(), [&] { return p.report(); });
    return dict_of("solves", r.solves, "iterations", r.iterations, "stopped", r.stopped, "best_residual", r.best,
                   "worst_residual", r.worst);
  });

  m.def(named<T>("hlu").c_str(),
        [](const HMatrix& a, const HMatrixRequest& o, std::complex<double> scale, std::complex<double> shift) {
          return in_turn(a.range().comm(), [&] {
            precond::HluOptions hlu = o.hlu();
            hlu.scale = scale, hlu.shift = shift;
            return std::make_shared<Hlu>(a, hlu);
          });
        });
  m.def(named<T>("block_diagonal").c_str(), [](const HMatrix& a, const HMatrixRequest& o) {
    return in_turn(a.range().comm(), [&] { return std::make_shared<BlockDiagonal>(a, o.block_diagonal()); });
  });
  m.def(named<T>("coarse_hmatrix").c_str(), [](const HMatrix& a, Local rank, double tolerance) {
    return in_turn(a.range().comm(), [&] { return std::make_shared<HMatrix>(a, op::CoarseOptions{rank, tolerance}); });
  });
  m.def(
      named<T>("inner").c_str(),
      [](std::shared_ptr<Base> a, std::shared_ptr<Base> p, const HMatrixRequest& o, bool hermitian) {
        return together(a->range().comm(), (p ? p : a)->range().comm(),
                        [&] { return std::make_shared<Inner>(a, p, o.inner(), hermitian); });
      },
      nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
}

template <Scalar T>
void bind_algebra(nb::module_& m) {
  using HMatrix = op::HMatrix<T>;
  using Shared = std::shared_ptr<HMatrix>;
  const auto vector = [](const HMatrix& a, const Columns<T>& rows) {
    layout::Vector<T> v(a.range(), checked_cast<int>(rows.shape(1), "the number of columns"));
    v.assign({rows.data(), rows.size()});
    return v;
  };
  // d: this rank's part of a diagonal, or no columns.
  m.def(named<T>("shifted_hmatrix").c_str(), [vector](const HMatrix& a, T scale, T shift, const Columns<T>& d) {
    return in_turn(a.range().comm(), [&] {
      if (d.shape(1) == 0) return Shared(op::shifted(a, scale, shift));
      const auto diagonal = vector(a, d);
      return Shared(op::shifted(a, scale, shift, &diagonal));
    });
  });
  m.def(named<T>("sum_of_hmatrices").c_str(), [](T alpha, const HMatrix& a, T beta, const HMatrix& b,
                                                 double tolerance) {
    return together(a.range().comm(), b.range().comm(), [&] { return Shared(op::sum(alpha, a, beta, b, tolerance)); });
  });
  m.def(named<T>("hmatrix_and_low_rank").c_str(),
        [vector](const HMatrix& a, const Columns<T>& U, const Columns<T>& V, double tolerance) {
          return in_turn(a.range().comm(),
                         [&] { return Shared(op::add_low_rank(a, vector(a, U), vector(a, V), tolerance)); });
        });
  m.def(named<T>("product_of_hmatrices").c_str(), [](const HMatrix& a, const HMatrix& b, double tolerance) {
    return together(a.range().comm(), b.range().comm(), [&] { return Shared(precond::product(a, b, tolerance)); });
  });
  m.def(named<T>("inverse_of_hmatrix").c_str(), [](const HMatrix& a, double tolerance) {
    return in_turn(a.range().comm(), [&] { return Shared(precond::inverse(a, tolerance)); });
  });
}

}  // namespace

void bind_hmatrix_precond(nb::module_& m) {
  bind_options<HMatrixRequest>(m, "HMatrixPrecondOptions", "hmatrix_precond", precond::hmatrix_options(),
                               precond::hmatrix_kinds())
      .def_prop_ro(
          "method_options", [](HMatrixRequest& o) -> krylov::Options& { return o.solve; },
          nb::rv_policy::reference_internal);
  m.def("check_hmatrix_precond",
        [](const HMatrixRequest& o, const std::string& name) { precond::check(o, name), (void)o.inner(); });
  for_each_scalar([&]<Scalar T>() { bind_scalar<T>(m), bind_algebra<T>(m); });
}

}  // namespace tacit::python
