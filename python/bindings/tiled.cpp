// The tiled operator for Python, and tomography, which uses it: projectors and reconstruction.
#include "described.hpp"
#include "on_gpu.hpp"

#include <nanobind/stl/function.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <tacit/app/tomography/cone.hpp>
#include <tacit/app/tomography/projector.hpp>
#include <tacit/app/tomography/reconstruct.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/staged_matrix.hpp>
#include <tacit/op/tiled_on_device.hpp>
#include <tacit/op/tiled_request.hpp>

#include <algorithm>
#include <ctime>
#include <numeric>

namespace tacit::python {
namespace {

using comm::Communicator;
using layout::Space;
using layout::Vector;
using release = WithoutGil;
template <class T>
using Whole = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

/// Element i of a space is number order[i] of a column; natural where this is empty.
std::size_t numbered(const std::vector<Local>& order, std::size_t i) {
  return order.empty() ? i : std::size_t(order[i]);
}

/// This rank's elements, in the order of a space, of whole columns in natural order; and the reverse, on every rank.
template <class T, Memory M>
Vector<T, M> taken(const Space& space, const std::vector<Local>& order, const T* whole, int k) {
  Vector<T> v(space, k);
  const auto n = std::size_t(space.size());
  const auto begin = std::size_t(space.begin());
  exec::parallel_for(std::size_t(space.local_size()), true, [&](std::size_t i) {
    for (int c = 0; c < k; ++c)
      v.data()[i * std::size_t(k) + std::size_t(c)] = whole[std::size_t(c) * n + numbered(order, begin + i)];
  });
  if constexpr (std::same_as<M, Host>) {
    return v;
  } else {
    Vector<T, M> there(space, k);
    there.assign({v.data(), v.size()});
    return there;
  }
}
template <class T, Memory M>
std::vector<T> given(const Vector<T, M>& v, const std::vector<Local>& order) {
  const Communicator& comm = v.space().comm();
  const auto n = std::size_t(v.space().size()), k = std::size_t(v.columns());
  std::vector<T> here, gathered;
  const T* from = nullptr;
  if constexpr (std::same_as<M, Host>) from = v.data();
  else here = v.to_host(), from = here.data();
  if (comm.size() > 1) gathered = comm.all_gather(std::span<const T>(from, v.size())), from = gathered.data();
  std::vector<T> whole(n * k);
  exec::parallel_for(n, true, [&](std::size_t i) {
    for (std::size_t c = 0; c < k; ++c) whole[c * n + numbered(order, i)] = from[i * k + c];
  });
  return whole;
}

/// The numbers of a projector's rays and pixels; empty: in order.
struct Numbers {
  std::vector<Local> rays, pixels;
};
Numbers numbers_of(const app::tomography::Projector& p) {
  return {p.ray_order(), p.pixel_order()};
}

/// The matrix of a projector in host memory.
template <class T>
struct Projection {
  using scalar = T;
  using memory = Host;
  Numbers numbers;
  std::shared_ptr<op::TiledSpmm<T>> a;
  std::string storage() const { return a->product(false).storage(); }
  template <class F>
  auto together(F&& f) const {
    return python::together(a->range().comm(), f);
  }
};
/// A tiled operator in the memory of a GPU.
template <class T>
struct TiledOnGpu : OnGpu<T> {
  using Matrix = op::TiledOnDevice<T, Device>;
  TiledOnGpu(int on, std::shared_ptr<const Matrix> made) { this->gpu = on, this->of = std::move(made); }
  const Matrix& matrix() const { return static_cast<const Matrix&>(*this->of); }
};
/// The matrix of a projector there.
template <class T>
struct ProjectionOnGpu {
  using scalar = T;
  using memory = Device;
  Numbers numbers;
  int gpu;
  std::shared_ptr<op::TiledOnDevice<T, Device>> a;
  std::string storage() const { return a->storage(); }
  template <class F>
  auto together(F&& f) const {
    return together_on(gpu, a->range().comm(), f);
  }
};

/// Whole columns, one a row of the array; the same on every rank.
template <class P, class T = typename P::scalar>
auto projected(const P& p, const Whole<T>& x, bool adjoint) {
  using M = typename P::memory;
  const int k = int(x.shape(0));
  auto whole = p.together([&] {
    const Space &from = adjoint ? p.a->range() : p.a->domain(), &to = adjoint ? p.a->domain() : p.a->range();
    const auto &in = adjoint ? p.numbers.rays : p.numbers.pixels, &out = adjoint ? p.numbers.pixels : p.numbers.rays;
    require(Global(x.shape(1)) == from.size(), "columns of ", x.shape(1), " numbers where ", from.size(),
            " are needed");
    Vector<T, M> y(to, k);
    const auto v = taken<T, M>(from, in, x.data(), k);
    if (adjoint) p.a->apply_adjoint(v, y);
    else p.a->apply(v, y);
    return given(y, out);
  });
  const std::size_t n = whole.size() / std::size_t(k);
  return array_of<T, std::vector<T>>(std::move(whole), std::size_t(k), n);
}

/// Rows of equal lengths `columns`, as an array.
auto table_of(const std::vector<std::vector<double>>& rows, std::size_t columns) {
  std::vector<double> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return array_of<double, std::vector<double>>(std::move(all), rows.size(), columns);
}

template <class P, class T = typename P::scalar>
nb::dict reconstructed(const P& p, const Whole<T>& b, const Whole<T>& start, app::tomography::ReconstructOptions o,
                       const nb::object& callback) {
  namespace tomography = app::tomography;
  using M = typename P::memory;
  const Communicator& comm = p.a->range().comm();
  const int k = int(b.shape(0));
  if (!callback.is_none())
    o.callback = [&](const tomography::State& s) {
      return call_python(comm.size(), [&] {
        return nb::cast<bool>(callback(s.iteration, array_of(std::vector<double>(*s.residual)), s.seconds));
      });
    };
  tomography::ReconstructResult result;
  auto images = p.together([&] {
    require(Global(b.shape(1)) == p.a->range().size(), "sinograms of ", b.shape(1), " rays where ", p.a->range().size(),
            " are needed");
    require(start.shape(0) == 0 || (start.shape(0) == b.shape(0) && Global(start.shape(1)) == p.a->domain().size()),
            "start images of ", start.shape(0), " x ", start.shape(1), " pixels where ", k, " x ", p.a->domain().size(),
            " are needed");
    const auto v = taken<T, M>(p.a->range(), p.numbers.rays, b.data(), k);
    auto x =
        start.shape(0) ? taken<T, M>(p.a->domain(), p.numbers.pixels, start.data(), k) : Vector<T, M>(p.a->domain(), k);
    result = tomography::reconstruct(*p.a, v, x, o);
    return given(x, p.numbers.pixels);
  });
  const std::size_t n = images.size() / std::size_t(k);
  std::vector<std::string> ends;
  for (const auto e : result.end) ends.emplace_back(to_string(e));
  return dict_of("images", array_of<T, std::vector<T>>(std::move(images), std::size_t(k), n), "residual",
                 table_of(result.residual, std::size_t(k)), "gradient", table_of(result.gradient, std::size_t(k)),
                 "iterations", result.iterations, "final_residual", result.final_residual, "seconds", result.seconds,
                 "end", ends);
}

/// The numbers of all elements of a space.
std::vector<Local> in_order(const std::vector<Local>& order, const Space& space) {
  if (!order.empty()) return order;
  std::vector<Local> all(static_cast<std::size_t>(space.size()));
  std::iota(all.begin(), all.end(), Local(0));
  return all;
}

/// A projector in either memory.
template <class P>
nb::class_<P> bind_projector(nb::module_& m, const char* name) {
  return nb::class_<P>(m, name)
      .def_prop_ro("entries", [](const P& p) { return p.a->entries(); })
      .def_prop_ro("storage", [](const P& p) { return p.storage(); })
      .def_prop_ro("ray_order", [](const P& p) { return array_of(in_order(p.numbers.rays, p.a->range())); })
      .def_prop_ro("pixel_order", [](const P& p) { return array_of(in_order(p.numbers.pixels, p.a->domain())); })
      .def("apply", &projected<P>)
      .def("reconstruct", &reconstructed<P>, nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
}

app::tomography::Projector projector_of(Local width, Local height, Local detectors, const Elements<double>& angles,
                                        double centre, double pixel, const op::TiledRequest& request) {
  namespace tomography = app::tomography;
  op::check(request, "projector");
  const bool curved = request.order.value_or(op::TiledOrder::hilbert) == op::TiledOrder::hilbert;
  tomography::Geometry g{width, height, detectors, {angles.data(), angles.data() + angles.size()}, centre, pixel};
  return tomography::Projector(std::move(g), curved ? tomography::Order::hilbert : tomography::Order::natural);
}

/// Views are rows of 12 numbers: source, middle of the detector, steps to the next column and row, each x, y, z.
app::tomography::ConeProjector cone_projector_of(const std::vector<Local>& volume, const std::vector<Local>& detector,
                                                 const std::vector<double>& voxel, const Elements<double>& views) {
  require(volume.size() == 3 && detector.size() == 2 && voxel.size() == 3 && views.size() % 12 == 0,
          "a volume of 3 sizes, a detector of 2, voxels of 3 sides, and views of 12 numbers are needed");
  app::tomography::ConeGeometry g;
  g.depth = volume[0], g.height = volume[1], g.width = volume[2];
  g.rows = detector[0], g.columns = detector[1];
  g.voxel = {voxel[2], voxel[1], voxel[0]};
  for (const double* v = views.data(); v != views.data() + views.size(); v += 12)
    g.views.push_back({{v[0], v[1], v[2]}, {v[3], v[4], v[5]}, {v[6], v[7], v[8]}, {v[9], v[10], v[11]}});
  return app::tomography::ConeProjector(std::move(g));
}

/// Seconds of one product with these columns, of the clock or of this thread on its processor: for benchmarks.
template <class T>
double seconds_of_product(const op::TiledSpmm<T>& a, const Whole<T>& x, bool adjoint, bool processor) {
  const int k = int(x.shape(1));
  const Space &from = adjoint ? a.range() : a.domain(), &to = adjoint ? a.domain() : a.range();
  require(x.shape(0) == std::size_t(from.local_size()), "columns of ", x.shape(0), " numbers where ", from.local_size(),
          " are needed");
  release free;
  Vector<T> in(from, k), out(to, k);
  in.assign({x.data(), x.size()});
  const auto now = [processor] {
    timespec t;
    clock_gettime(processor ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
  };
  const double begin = now();
  if (adjoint) a.apply_adjoint(in, out);
  else a.apply(in, out);
  return now() - begin;
}

/// This rank's part as it is stored: starts, local columns, values.
template <class T>
nb::tuple stored_rows(const op::TiledSpmm<T>& a, bool adjoint) {
  const auto& matrix = adjoint ? a.backward() : a.forward();
  op::RowBuffer<T> rows;
  rows.start = {0};
  unlocked([&] { matrix.rows(0, matrix.rows(), rows); });
  return nb::make_tuple(array_of(std::move(rows.start)), array_of(std::move(rows.column)),
                        array_of(std::move(rows.value)));
}

template <class T>
void bind_matrix(nb::module_& m) {
  using Tiled = op::TiledSpmm<T>;
  nb::class_<Tiled, op::Operator<T, Host>>(m, named<T>("TiledSpmm").c_str())
      .def_prop_ro("entries", &Tiled::entries)
      .def_prop_ro("facts",
                   [](const Tiled& a) {
                     return dict_of("storage", a.product(false).storage(), "bytes",
                                    a.product(false).bytes() + a.product(true).bytes(), "block_rows",
                                    a.stores_entries() ? a.forward().block_rows() : 0, "order", a.order());
                   })
      .def("stored_rows", &stored_rows<T>)
      // The row and column of this rank's part at each stored position; empty: the given order.
      .def_prop_ro("orders",
                   [](const Tiled& a) {
                     return nb::make_tuple(array_of(std::vector<Local>(a.forward().row_order())),
                                           array_of(std::vector<Local>(a.forward().column_order())));
                   })
      .def("time_product", &seconds_of_product<T>)
      .def("volumes",
           [](const Tiled& a) {
             nb::list levels;
             for (const auto& v : unlocked([&] { return a.reduction().total_volume(); }))
               levels.append(dict_of("group", v.group, "touched", v.touched, "sent", v.sent, "messages", v.messages));
             return levels;
           })
      .def("staging",
           [](const Tiled& a, int block_rows, int capacity, bool adjoint) {
             const auto& matrix = adjoint ? a.backward() : a.forward();
             const auto rows = [&](Local begin, Local end, op::RowBuffer<T>& out) { matrix.rows(begin, end, out); };
             const auto s = unlocked(
                 [&] { return op::staging_of<T>(matrix.rows(), matrix.columns(), rows, block_rows, capacity); });
             return nb::make_tuple(s.reuse, s.stages, s.warp_padding);
           })
      .def("reuse", [](const Tiled& a, int rows, bool adjoint) {
        return unlocked([&] { return (adjoint ? a.backward() : a.forward()).reuse(rows); });
      });
  // gpu: below 0 in host memory.
  m.def(named<T>("tiled").c_str(), [](const op::Csr<T, Host>& a, const op::TiledRequest& request, int gpu) {
    return made_on(gpu, a.range().comm(), [&]<class M>(M) {
      op::check(request, "tiled");
      if constexpr (std::same_as<M, Host>)
        return std::make_shared<Tiled>(a.range(), a.domain(), a.rows(), request.options());
      else
        return std::make_shared<TiledOnGpu<T>>(
            gpu, std::make_shared<op::TiledOnDevice<T, M>>(a.range(), a.domain(), a.rows(), request.options()));
    });
  });

#ifdef TACIT_HAVE_CUDA
  using OnDevice = TiledOnGpu<T>;
  nb::class_<OnDevice, OnGpu<T>>(m, named<T>("DeviceTiledSpmm").c_str())
      .def_prop_ro("entries", [](const OnDevice& a) { return a.matrix().entries(); })
      .def_prop_ro("storage", [](const OnDevice& a) { return a.matrix().storage(); })
      .def_prop_ro("bytes", [](const OnDevice& a) { return a.matrix().bytes(); });
#endif
}

template <class T>
void bind_projectors(nb::module_& m) {
  using P = Projection<T>;
  bind_projector<P>(m, named<T>("Projector").c_str()).def_prop_ro("operator", [](const P& p) { return p.a; });
  m.def(named<T>("projector").c_str(),
        [](const Communicator& comm, Local width, Local height, Local detectors, const Elements<double>& angles,
           double centre, double pixel, const op::TiledRequest& request, int gpu) {
          return made_on(gpu, comm, [&]<class M>(M) {
            auto projector = projector_of(width, height, detectors, angles, centre, pixel, request);
            if constexpr (std::same_as<M, Host>) {
              auto a = projector.template matrix<T>(comm, request.options());
              return std::make_shared<P>(P{numbers_of(projector), std::move(a)});
            } else {
              auto a = projector.template on_device<T, M>(comm, request.options());
              using There = ProjectionOnGpu<T>;
              return std::make_shared<There>(There{numbers_of(projector), gpu, std::move(a)});
            }
          });
        });
  m.def(named<T>("cone_projector").c_str(),
        [](const Communicator& comm, const std::vector<Local>& volume, const std::vector<Local>& detector,
           const std::vector<double>& voxel, const Elements<double>& views, const op::TiledRequest& request) {
          return together(comm, [&] {
            const auto projector = cone_projector_of(volume, detector, voxel, views);
            return std::make_shared<P>(P{{}, projector.template matrix<T>(comm, request.options())});
          });
        });
  m.def(named<T>("cone_back_project").c_str(),
        [](const std::vector<Local>& volume, const std::vector<Local>& detector, const std::vector<double>& voxel,
           const Elements<double>& views, const Whole<T>& projections) {
          const auto projector = cone_projector_of(volume, detector, voxel, views);
          const auto size = std::size_t(projector.geometry().voxels());
          require(Global(projections.shape(1)) == projector.geometry().rays(), "projections of ", projections.shape(1),
                  " rays where ", projector.geometry().rays(), " are needed");
          std::vector<T> made(size * projections.shape(0));
          unlocked([&] {
            for (std::size_t k = 0; k < projections.shape(0); ++k)
              projector.back_project(projections.data() + k * projections.shape(1), made.data() + k * size);
          });
          return array_of<T, std::vector<T>>(std::move(made), projections.shape(0), size);
        });
#ifdef TACIT_HAVE_CUDA
  using Projected = ProjectionOnGpu<T>;
  bind_projector<Projected>(m, named<T>("DeviceProjector").c_str())
      .def_ro("gpu", &Projected::gpu)
      .def_prop_ro("operator", [](const Projected& p) { return std::make_shared<TiledOnGpu<T>>(p.gpu, p.a); });
#endif
}

}  // namespace

void bind_tiled(nb::module_& m) {
  namespace tomography = app::tomography;
  bind_options<op::TiledRequest>(m, "TiledOptions", "tiled", op::tiled_options(), op::tiled_takers());
  m.def("check_tiled", [](const op::TiledRequest& o, const std::string& who) { op::check(o, who); });
  bind_options<tomography::ReconstructOptions>(m, "ReconstructOptions", "reconstruct",
                                               tomography::reconstruct_options(), tomography::methods())
      .def_prop_rw(
          "method", [](const tomography::ReconstructOptions& o) { return to_string(o.method); },
          [](tomography::ReconstructOptions& o, const std::string& name) {
            o.method = value_of<tomography::Method>(name);
          });
  m.def("check_reconstruct", &tomography::check);
  bind_matrix<float>(m);
  bind_projectors<float>(m);
  bind_matrix<double>(m);
  bind_projectors<double>(m);
}

}  // namespace tacit::python
