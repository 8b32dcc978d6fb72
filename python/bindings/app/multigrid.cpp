// Cells, finite volumes on them and multigrid for Python: options in, a report as a dict out.
#include "../described.hpp"
#include "../on_gpu.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tacit/app/multigrid/bottom.hpp>
#include <tacit/op/cells/finite_volume.hpp>
#include <tacit/precond/multigrid/multigrid.hpp>
#include <tacit/precond/multigrid/on_device.hpp>

#include <algorithm>
#include <array>
#include <optional>

namespace tacit::python {
namespace {

using op::Boxes;

/// A scalar function of Python, for functions that are evaluated point by point.
op::Field field_of(int ranks, const nb::object& f) {
  if (f.is_none()) return {};
  nb::handle call = f;
  return
      [=](double x, double y, double z) { return call_python(ranks, [&] { return nb::cast<double>(call(x, y, z)); }); };
}

using Request = app::MultigridRequest;

nb::dict to_dict(const precond::MultigridReport& r) {
  nb::list levels;
  for (const auto& l : r.levels) {
    const nb::dict seconds =
        dict_of("smooth", l.smooth, "residual_and_restriction", l.residual, "interpolation", l.interpolation,
                "exchange", l.exchange, "bottom", l.bottom, "move", l.move, "down", l.down, "up", l.up);
    levels.append(dict_of("cells", std::vector<Global>(l.cells.begin(), l.cells.end()), "patches", l.boxes, "ranks",
                          l.ranks, "half_sweeps", l.half_sweeps, "exchanges", l.exchanges, "seconds", seconds));
  }
  return dict_of(
      "converged", r.converged(), "reason", to_string(r.reason), "advice", r.advice, "norm", r.norm, "cycles", r.cycles,
      "residual_norm", r.residual_norm, "b_norm", r.b_norm, "history", r.history, "bottom", r.bottom, "bottom_choice",
      r.bottom_choice, "bottom_solves", r.bottom_solves, "bottom_iterations", r.bottom_iterations, "bottom_failures",
      r.bottom_failures, "seconds", r.seconds, "warnings", r.warnings, "counts",
      dict_of("reductions", r.reductions, "exchanges", r.exchanges, "messages", r.messages, "bytes", r.bytes), "levels",
      levels);
}

// The options that the coarsest-level solver of a device takes; others are refused.
precond::ResidentBottom resident_bottom(const Request& o) {
  const auto& given = o.bottom;
  const auto& k = given.krylov;
  require(given.name == "automatic" || given.name == "bicgstab",
          "the bottom of a device is bicgstab in one launch, and \"", given.name, "\" was asked for");
  require(k.norm == krylov::Norm::max && !k.step && !k.basis && !k.powers && !k.depth,
          "a device's bottom takes bottom_reduction, bottom_max_iterations and the norm max");
  precond::ResidentBottom b;
  b.reduction = k.rtol.value_or(b.reduction), b.max_iterations = k.max_iterations.value_or(b.max_iterations);
  b.cells = o.bottom_cells.value_or(b.cells);
  return b;
}

/// (x, report, seconds to make the levels), levels and vectors in memory M.
template <Scalar T, Memory M>
std::tuple<std::vector<T>, precond::MultigridReport, double> solve_on_device(
    std::shared_ptr<const op::FiniteVolume<T>> a, const precond::MultigridOptions& options,
    const precond::ResidentBottom& bottom, std::span<const T> b, std::span<const T> x0,
    const precond::MultigridSolve& solve) {
  const double from = wall_time();
  const precond::MultigridOnDevice<T, M> levels(a, options, bottom);
  layout::Vector<T, M> right(a->range()), x(a->domain());
  right.assign(b);
  if (!x0.empty()) x.assign(x0);
  const double setup = wall_time() - from;
  auto report = levels.solve(right, x, solve);
  return {x.to_host(), std::move(report), setup};
}

template <Scalar T>
void bind_finite_volume(nb::module_& m) {
  using A = op::FiniteVolume<T>;
  nb::class_<A, op::Operator<T, Host>>(m, named<T>("FiniteVolume").c_str())
      .def_prop_ro("singular", &A::singular)
      .def_prop_ro("constant", &A::is_constant)
      .def_prop_ro("symmetric", &A::is_symmetric)
      .def_prop_ro("boxes", [](const A& a) { return a.boxes(); })
      .def("volumes", [](const A& a) { return array_of(a.volumes()); })
      .def(
          "boundary_terms",
          [](const A& a, const nb::object& value, const nb::object& flux) {
            const int ranks = a.range().comm().size();
            return array_of(together(a.range().comm(),
                                     [&] { return a.boundary_terms(field_of(ranks, value), field_of(ranks, flux)); }));
          },
          nb::arg().none(), nb::arg().none())
      .def("assemble", [](const A& a) {
        return together(a.range().comm(),
                        [&] { return std::make_shared<op::Csr<T>>(a.range(), a.domain(), a.rows()); });
      });
  m.def(
      named<T>("finite_volume").c_str(),
      [](const Boxes& boxes, double a, double b, std::optional<Elements<T>> alpha, const std::vector<Elements<T>>& beta,
         const std::string& mean, const std::string& stencil) {
        return together(boxes.space().comm(), [&] {
          op::Coefficients<T> c{a, b, {}, {}, op::CellStencil::seven_point};
          if (alpha) c.alpha.assign(alpha->data(), alpha->data() + alpha->size());
          if (!mean.empty()) {
            c = op::coefficients_of_cells<T>(boxes, a, b, std::move(c.alpha), {beta[0].data(), beta[0].size()},
                                             value_of<op::Mean>(mean));
          } else {
            for (std::size_t i = 0; i < beta.size(); ++i)
              c.beta[i].assign(beta[i].data(), beta[i].data() + beta[i].size());
          }
          c.stencil = value_of<op::CellStencil>(stencil);
          return std::make_shared<A>(boxes, c);
        });
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg());
}

template <Scalar T>
void bind_hierarchy(nb::module_& m) {
  using A = op::FiniteVolume<T>;
  using M = precond::Multigrid<T>;
  using layout::Vector;
  nb::class_<M, op::Operator<T, Host>>(m, named<T>("Multigrid").c_str())
      .def_prop_ro("levels", &M::levels)
      .def("take_levels",
           [](const M& s) {
             precond::MultigridReport r;
             r.levels = in_turn(s.range().comm(), [&] { return s.take_levels(); });
             return nb::object(to_dict(r)["levels"]);
           })
      .def("take_bottom",
           [](const M& s) {
             const auto r = in_turn(s.range().comm(), [&] { return s.take_bottom(); });
             return dict_of("bottom", r.name, "bottom_choice", r.choice, "bottom_solves", r.solves, "bottom_iterations",
                            r.iterations, "bottom_failures", r.failures, "warnings", r.warnings);
           })
      // (this rank's part of x, report)
      .def(
          "solve",
          [](const M& s, const Elements<T>& b, std::optional<Elements<T>> x0, const precond::MultigridSolve& o) {
            precond::MultigridReport report;
            auto x = together(s.range().comm(), [&] {
              check_values(app::multigrid_solve_options(), o);
              auto solution = std::make_unique<Vector<T>>(s.domain());
              if (x0) solution->assign({x0->data(), x0->size()});
              Vector<T> right(s.range());
              right.assign({b.data(), b.size()});
              report = s.solve(right, *solution, o);
              return solution;
            });
            const std::size_t n = x->size();
            return nb::make_tuple(array_of<T>(std::move(*x), n), to_dict(report));
          },
          nb::arg(), nb::arg().none(), nb::arg());
  m.def(named<T>("multigrid").c_str(), [](std::shared_ptr<A> a, const Request& options) {
    return together(a->range().comm(), [&] {
      check_values(app::multigrid_options(), options);
      require(!options.bottom_cells, "bottom_cells ", options.bottom_cells.value_or(0), " is an option of a device");
      return app::make_multigrid<T>(a, options.levels, options.bottom);
    });
  });
}

/// On a GPU, or without its number on a virtual device.
template <Scalar T>
void bind_on_device(nb::module_& m) {
  m.def(
      named<T>("multigrid_on_device").c_str(),
      [](std::shared_ptr<op::FiniteVolume<T>> a, const Request& options, std::optional<int> gpu, const Elements<T>& b,
         std::optional<Elements<T>> x0, const precond::MultigridSolve& s) {
        check_values(app::multigrid_options(), options);
        check_values(app::multigrid_solve_options(), s);
        const auto& o = options.levels;
        const auto bottom = resident_bottom(options);
        const std::span<const T> right(b.data(), b.size()),
            guess = x0 ? std::span<const T>(x0->data(), x0->size()) : std::span<const T>();
        const auto solved = [&]<class M>(M) { return solve_on_device<T, M>(a, o, bottom, right, guess, s); };
        auto [x, report, setup] = [&] {
          if (!gpu) return together(a->range().comm(), [&] { return solved(Host{}); });
#ifdef TACIT_HAVE_CUDA
          return together_on(*gpu, a->range().comm(), [&] { return solved(Device{}); });
#else
          throw Error(ErrorKind::environment, "this Tacit was built without CUDA");
#endif
        }();
        return nb::make_tuple(array_of(std::move(x)), to_dict(report), setup);
      },
      nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg());
}

void bind_boxes(nb::module_& m) {
  nb::class_<Boxes>(m, "Boxes")
      .def_prop_ro("cells", &Boxes::cells)
      .def_prop_ro("shape",
                   [](const Boxes& b) {
                     std::vector<Global> n;
                     for (int a = 0; a < b.domain().dimensions; ++a) n.push_back(b.domain().cells(a));
                     return n;
                   })
      .def_prop_ro("whole", &Boxes::is_whole)
      .def_prop_ro("patches",
                   [](const Boxes& b) {
                     std::vector<std::tuple<std::array<Global, 3>, std::array<Global, 3>, int>> all;
                     for (std::size_t p = 0; p < b.patches().size(); ++p)
                       all.emplace_back(b.patches()[p].lower, b.patches()[p].upper, b.owner(p));
                     return all;
                   })
      .def_prop_ro("comm", [](const Boxes& b) { return b.space().comm(); })
      // Own cells: places in the grid in its natural order; centres and face centres, x, y, z of each.
      .def("places",
           [](const Boxes& b) {
             std::vector<Global> at;
             for (std::size_t p = 0; p < b.count(); ++p) {
               const auto& box = b.own(p);
               for (Global z = box.lower[2]; z < box.upper[2]; ++z)
                 for (Global y = box.lower[1]; y < box.upper[1]; ++y)
                   for (Global x = box.lower[0]; x < box.upper[0]; ++x)
                     at.push_back(x + b.domain().cells(0) * (y + b.domain().cells(1) * z));
             }
             return array_of(std::move(at));
           })
      .def("centres", [](const Boxes& b) { return array_of(op::centres(b)); })
      .def("face_centres", [](const Boxes& b, int axis) { return array_of(op::face_centres(b, axis)); });
  m.def(
      "boxes",
      [](const comm::Communicator& comm, const std::vector<Global>& n,
         const std::vector<std::pair<std::string, std::string>>& boundary, const std::vector<double>& lengths,
         const std::array<Global, 3>& edge, const nb::object& inside) {
        std::vector<std::array<op::Boundary, 2>> kinds;
        for (const auto& [low, high] : boundary)
          kinds.push_back({value_of<op::Boundary>(low), value_of<op::Boundary>(high)});
        std::function<bool(double, double, double)> f;
        if (!inside.is_none()) {
          nb::handle call = inside;
          const int ranks = comm.size();
          f = [=](double x, double y, double z) {
            return call_python(ranks, [&] { return nb::cast<bool>(call(x, y, z)); });
          };
        }
        return together(comm, [&] { return Boxes::within(comm, op::Domain::uniform(n, kinds, lengths), edge, f); });
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
}

}  // namespace

void bind_multigrid(nb::module_& m) {
  bind_boxes(m);
  bind_options<Request>(m, "MultigridOptions", "multigrid", app::multigrid_options())
      .def_prop_ro(
          "bottom_options", [](Request& o) -> krylov::Options& { return o.bottom.krylov; },
          nb::rv_policy::reference_internal);
  m.def("default_multigrid_rtol", [](const std::string& scalar) {
    using Solve = precond::MultigridSolve;
    return scalar == "float32" ? Solve::default_rtol<float>() : Solve::default_rtol<double>();
  });
  bind_options<precond::MultigridSolve>(m, "MultigridSolveOptions", "multigrid_solve", app::multigrid_solve_options());
  bind_choices<op::CellStencil>(m, "stencils");
  bind_choices<op::Mean>(m, "means");
  bind_finite_volume<float>(m);
  bind_hierarchy<float>(m);
  bind_on_device<float>(m);
  bind_finite_volume<double>(m);
  bind_hierarchy<double>(m);
  bind_on_device<double>(m);
}

}  // namespace tacit::python
