// Preconditioners of H-matrices, and inner methods, for Python: operators with a report.
#include "bindings.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <tacit/krylov/inner.hpp>
#include <tacit/precond/hmatrix/block_diagonal.hpp>
#include <tacit/precond/hmatrix/hlu.hpp>

namespace tacit::python {
namespace {

precond::FactorPrecision precision_of(const std::string& name) {
  return name == "single" ? precond::FactorPrecision::single
         : name == "full" ? precond::FactorPrecision::full
                          : precond::FactorPrecision::automatic;
}

template <Scalar T>
void bind_scalar(nb::module_& m) {
  using release = nb::call_guard<WithoutGil>;
  using Base = op::Operator<T>;
  using HMatrix = op::HMatrix<T>;
  using Hlu = precond::Hlu<T>;
  using BlockDiagonal = precond::BlockDiagonal<T>;
  using Inner = krylov::Inner<T>;

  nb::class_<Hlu, Base>(m, named<T>("Hlu").c_str()).def_prop_ro("report", [](const Hlu& p) {
    const auto& r = p.report();
    nb::dict d;
    d["bytes"] = r.bytes;
    d["dense_blocks"] = r.dense_blocks;
    d["low_rank_blocks"] = r.low_rank_blocks;
    d["mean_rank"] = r.mean_rank;
    d["max_rank"] = r.max_rank;
    d["replaced_pivots"] = r.perturbed;
    d["precision"] = r.single ? "single" : "full";
    d["seconds"] = r.seconds;
    d["note"] = p.note();
    return d;
  });
  nb::class_<BlockDiagonal, Base>(m, named<T>("BlockDiagonal").c_str())
      .def_prop_ro("report", [](const BlockDiagonal& p) {
        nb::dict d;
        d["bytes"] = p.bytes();
        d["blocks"] = p.blocks();
        d["note"] = p.note();
        return d;
      });
  nb::class_<Inner, Base>(m, named<T>("Inner").c_str()).def_prop_ro("report", [](const Inner& p) {
    const auto& r = p.report();
    nb::dict d;
    d["solves"] = r.solves;
    d["iterations"] = r.iterations;
    d["stopped"] = r.stopped;
    d["best_residual"] = r.best;
    d["worst_residual"] = r.worst;
    return d;
  });

  m.def(
      named<T>("hlu").c_str(),
      [](const HMatrix& a, double tolerance, Local rank, Local leaf_size, const std::string& precision) {
        return std::make_shared<Hlu>(a, precond::HluOptions{tolerance, rank, leaf_size, precision_of(precision)});
      },
      release());
  m.def(
      named<T>("block_diagonal").c_str(),
      [](const HMatrix& a, Local size, const std::string& precision) {
        return std::make_shared<BlockDiagonal>(a, precond::BlockDiagonalOptions{size, precision_of(precision)});
      },
      release());
  m.def(
      named<T>("coarse_hmatrix").c_str(),
      [](const HMatrix& a, Local rank, double tolerance) {
        return std::make_shared<HMatrix>(a, op::CoarseOptions{rank, tolerance});
      },
      release());
  m.def(
      named<T>("inner").c_str(),
      [](std::shared_ptr<Base> a, std::shared_ptr<Base> p, const krylov::Options& options, bool hermitian) {
        const auto& comm = a->range().comm();
        return comm::collective(comm, [&] { return std::make_shared<Inner>(a, p, options, hermitian); });
      },
      nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), release());
}

}  // namespace

void bind_hmatrix_precond(nb::module_& m) {
  for_each_scalar([&]<Scalar T>() { bind_scalar<T>(m); });
}

}  // namespace tacit::python
