// The tiled operator for Python, and the applications that use it: projectors, reconstruction, sparse networks.
#include "described.hpp"

#include <nanobind/stl/function.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <tacit/app/inference/network.hpp>
#include <tacit/app/tomography/projector.hpp>
#include <tacit/app/tomography/reconstruct.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/staged_matrix.hpp>
#include <tacit/op/tiled_request.hpp>

#include <algorithm>
#include <ctime>

namespace tacit::python {
namespace {

using comm::Communicator;
using layout::Space;
using layout::Vector;
using release = WithoutGil;
template <class T>
using Whole = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

/// This rank's elements, in the order of a space, of whole columns in natural order; and the reverse, on every rank.
template <class T>
Vector<T> taken(const Space& space, const std::vector<Local>& order, const T* whole, int k) {
  Vector<T> v(space, k);
  const auto n = std::size_t(space.size());
  const Local begin = Local(space.begin());
  exec::parallel_for(std::size_t(space.local_size()), true, [&](std::size_t i) {
    for (int c = 0; c < k; ++c)
      v.data()[i * std::size_t(k) + std::size_t(c)] =
          whole[std::size_t(c) * n + std::size_t(order[std::size_t(begin) + i])];
  });
  return v;
}
template <class T>
std::vector<T> given(const Vector<T>& v, const std::vector<Local>& order) {
  const Communicator& comm = v.space().comm();
  const auto n = std::size_t(v.space().size()), k = std::size_t(v.columns());
  std::vector<T> gathered;
  const T* from = v.data();
  if (comm.size() > 1) gathered = comm.all_gather(std::span<const T>(v.data(), v.size())), from = gathered.data();
  std::vector<T> whole(n * k);
  exec::parallel_for(n, true, [&](std::size_t i) {
    for (std::size_t c = 0; c < k; ++c) whole[c * n + std::size_t(order[i])] = from[i * k + c];
  });
  return whole;
}

template <class T>
struct Projection {
  app::tomography::Projector projector;
  std::shared_ptr<op::TiledSpmm<T>> a;
};

template <class T>
void bind_real(nb::module_& m) {
  namespace tomography = app::tomography;
  using Tiled = op::TiledSpmm<T>;
  using Base = op::Operator<T, Host>;
  nb::class_<Tiled, Base>(m, named<T>("TiledSpmm").c_str())
      .def_prop_ro("entries", &Tiled::entries)
      .def_prop_ro("facts",
                   [](const Tiled& a) {
                     return dict_of("storage", a.product(false).storage(), "bytes",
                                    a.product(false).bytes() + a.product(true).bytes(), "block_rows",
                                    a.stores_entries() ? a.forward().block_rows() : 0, "order", a.order());
                   })
      // This rank's part as it is stored: starts, local columns, values.
      .def("stored_rows",
           [](const Tiled& a, bool adjoint) {
             const auto& matrix = adjoint ? a.backward() : a.forward();
             op::RowBuffer<T> rows;
             rows.start = {0};
             unlocked([&] { matrix.rows(0, matrix.rows(), rows); });
             return nb::make_tuple(array_of(std::move(rows.start)), array_of(std::move(rows.column)),
                                   array_of(std::move(rows.value)));
           })
      // The row and column of this rank's part at each stored position; empty: the given order.
      .def_prop_ro("orders",
                   [](const Tiled& a) {
                     return nb::make_tuple(array_of(std::vector<Local>(a.forward().row_order())),
                                           array_of(std::vector<Local>(a.forward().column_order())));
                   })
      // Seconds of one product with these columns, of the clock or of this thread on its processor: for benchmarks.
      .def("time_product",
           [](const Tiled& a, const Whole<T>& x, bool adjoint, bool processor) {
             const int k = int(x.shape(1));
             const Space &from = adjoint ? a.range() : a.domain(), &to = adjoint ? a.domain() : a.range();
             require(x.shape(0) == std::size_t(from.local_size()), "columns of ", x.shape(0), " numbers where ",
                     from.local_size(), " are needed");
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
           })
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
  m.def(named<T>("tiled").c_str(), [](const op::Csr<T, Host>& a, const op::TiledRequest& request) {
    return together(a.range().comm(), [&] {
      op::check(request, "tiled");
      return std::make_shared<Tiled>(a.range(), a.domain(), a.rows(), request.options());
    });
  });

  using P = Projection<T>;
  nb::class_<P>(m, named<T>("Projector").c_str())
      .def_prop_ro("operator", [](const P& p) { return p.a; })
      .def_prop_ro("ray_order", [](const P& p) { return array_of(std::vector<Local>(p.projector.ray_order())); })
      .def_prop_ro("pixel_order", [](const P& p) { return array_of(std::vector<Local>(p.projector.pixel_order())); })
      // Whole columns, one a row of the array; the same on every rank.
      .def("apply",
           [](const P& p, const Whole<T>& x, bool adjoint) {
             const int k = int(x.shape(0));
             auto whole = together(p.a->range().comm(), [&] {
               const Space &from = adjoint ? p.a->range() : p.a->domain(), &to = adjoint ? p.a->domain() : p.a->range();
               const auto &in = adjoint ? p.projector.ray_order() : p.projector.pixel_order(),
                          &out = adjoint ? p.projector.pixel_order() : p.projector.ray_order();
               require(Global(x.shape(1)) == from.size(), "columns of ", x.shape(1), " numbers where ", from.size(),
                       " are needed");
               Vector<T> y(to, k);
               const auto v = taken(from, in, x.data(), k);
               if (adjoint) p.a->apply_adjoint(v, y);
               else p.a->apply(v, y);
               return given(y, out);
             });
             const std::size_t n = whole.size() / std::size_t(k);
             return array_of<T, std::vector<T>>(std::move(whole), std::size_t(k), n);
           })
      .def(
          "reconstruct",
          [](const P& p, const Whole<T>& b, const Whole<T>& start, tomography::ReconstructOptions o,
             const nb::object& callback) {
            const Communicator& comm = p.a->range().comm();
            const int k = int(b.shape(0));
            if (!callback.is_none())
              o.callback = [&](const tomography::State& s) {
                return call_python(comm.size(), [&] {
                  return nb::cast<bool>(callback(s.iteration, array_of(std::vector<double>(*s.residual)), s.seconds));
                });
              };
            tomography::ReconstructResult result;
            auto images = together(comm, [&] {
              require(Global(b.shape(1)) == p.a->range().size(), "sinograms of ", b.shape(1), " rays where ",
                      p.a->range().size(), " are needed");
              require(start.shape(0) == 0 ||
                          (start.shape(0) == b.shape(0) && Global(start.shape(1)) == p.a->domain().size()),
                      "start images of ", start.shape(0), " x ", start.shape(1), " pixels where ", k, " x ",
                      p.a->domain().size(), " are needed");
              const auto v = taken(p.a->range(), p.projector.ray_order(), b.data(), k);
              auto x = start.shape(0) ? taken(p.a->domain(), p.projector.pixel_order(), start.data(), k)
                                      : Vector<T>(p.a->domain(), k);
              result = tomography::reconstruct<T>(*p.a, v, x, o);
              return given(x, p.projector.pixel_order());
            });
            const std::size_t n = images.size() / std::size_t(k), rows = result.residual.size();
            const auto flat = [](const std::vector<std::vector<double>>& table) {
              std::vector<double> all;
              for (const auto& row : table) all.insert(all.end(), row.begin(), row.end());
              return all;
            };
            std::vector<std::string> ends;
            for (const auto e : result.end) ends.emplace_back(to_string(e));
            return dict_of(
                "images", array_of<T, std::vector<T>>(std::move(images), std::size_t(k), n), "residual",
                array_of<double, std::vector<double>>(flat(result.residual), rows, std::size_t(k)), "gradient",
                array_of<double, std::vector<double>>(flat(result.gradient), rows, std::size_t(k)), "iterations",
                result.iterations, "final_residual", result.final_residual, "seconds", result.seconds, "end", ends);
          },
          nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def(named<T>("projector").c_str(), [](const Communicator& comm, Local width, Local height, Local detectors,
                                          const Elements<double>& angles, double centre, double pixel,
                                          const op::TiledRequest& request) {
    return together(comm, [&] {
      op::check(request, "projector");
      const bool curved = request.order.value_or(op::TiledOrder::hilbert) == op::TiledOrder::hilbert;
      tomography::Geometry g{width, height, detectors, {angles.data(), angles.data() + angles.size()}, centre, pixel};
      tomography::Projector projector(std::move(g), curved ? tomography::Order::hilbert : tomography::Order::natural);
      auto a = projector.template matrix<T>(comm, request.options());
      return std::make_shared<P>(P{std::move(projector), std::move(a)});
    });
  });
}

using Classes = nb::ndarray<const Local, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

app::inference::LayerSource radixnet_of(const std::vector<int>& radices, int width, float weight,
                                        const Classes& classes) {
  std::vector<std::vector<Local>> blocks;
  for (std::size_t g = 0; g < classes.shape(0); ++g)
    blocks.emplace_back(classes.data() + g * classes.shape(1), classes.data() + (g + 1) * classes.shape(1));
  return app::inference::radixnet(radices, width, weight, std::move(blocks));
}

void bind_inference(nb::module_& m) {
  namespace inference = app::inference;
  using inference::Network;
  using Request = inference::InferenceRequest;
  bind_options<Request>(m, "InferenceOptions", "inference", inference::inference_options(),
                        inference::inference_takers());
  nb::class_<Network>(m, "Network")
      .def_prop_ro("layers", &Network::layers)
      .def_prop_ro("inputs", &Network::inputs)
      .def_prop_ro("outputs", &Network::outputs)
      .def_prop_ro("streams", &Network::streams)
      .def(
          "infer",
          [](const Network& n, const nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>& bits,
             const Whole<float>& dense, const Request& request, const nb::object& callback) {
            auto o = request.infer;
            if (!callback.is_none())
              o.callback = [&](int layers, Global alive) {
                return call_python(1, [&] { return nb::cast<bool>(callback(layers, alive)); });
              };
            const bool packed = bits.shape(0) > 0;
            require(!packed || bits.shape(1) == std::size_t((n.inputs() + 7) / 8), "images of ", bits.shape(1),
                    " bytes for ", n.inputs(), " neurons");
            require(packed || dense.shape(0) == 0 || dense.shape(1) == std::size_t(n.inputs()), "images of ",
                    dense.shape(1), " numbers for ", n.inputs(), " neurons");
            auto r = unlocked([&] {
              return n.infer(Global(packed ? bits.shape(0) : dense.shape(0)), packed ? bits.data() : nullptr,
                             packed ? nullptr : dense.data(), o);
            });
            std::vector<Global> alive;
            std::vector<double> sums;
            for (const auto& l : r.layers) alive.push_back(l.alive), sums.push_back(l.sum);
            return dict_of("categories", array_of(std::move(r.categories)), "outputs", array_of(std::move(r.outputs)),
                           "alive", array_of(std::move(alive)), "sums", array_of(std::move(sums)), "edges", r.edges,
                           "edges_worked", r.edges_worked, "seconds", r.seconds, "weight_seconds", r.weight_seconds,
                           "layers_done", r.layers_done);
          },
          nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  // source(l) gives (inputs, starts, inputs of weights, weights), rows being output neurons.
  m.def("network", [](int layers, nb::object source, const Request& o) {
    // Every copy of the source owns the Python object; the last one releases it with the GIL.
    const std::shared_ptr<nb::object> held(new nb::object(std::move(source)), [](nb::object* p) {
      WithGil lock;
      delete p;
    });
    const inference::LayerSource make = [held](int l) {
      return call_python(1, [&] {
        const auto given = nb::cast<nb::tuple>((*held)(l));
        const auto start = nb::cast<Elements<std::int64_t>>(given[1]);
        const auto input = nb::cast<Elements<std::int32_t>>(given[2]);
        const auto weight = nb::cast<Elements<float>>(given[3]);
        inference::Layer layer;
        layer.inputs = nb::cast<Local>(given[0]);
        layer.start.assign(start.data(), start.data() + start.size());
        layer.input.assign(input.data(), input.data() + input.size());
        layer.weight.assign(weight.data(), weight.data() + weight.size());
        return layer;
      });
    };
    return unlocked([&] { return std::make_shared<Network>(layers, make, o.values, o.weight_bytes); });
  });
  m.def("radixnet", [](int layers, const std::vector<int>& radices, int width, float weight, const Classes& classes,
                       const Request& o) {
    return unlocked([&] {
      return std::make_shared<Network>(layers, radixnet_of(radices, width, weight, classes), o.values, o.weight_bytes);
    });
  });
  // The rows of layer l of the same, for files and checks.
  m.def("radixnet_layer",
        [](int layer, const std::vector<int>& radices, int width, float weight, const Classes& classes) {
          auto made = radixnet_of(radices, width, weight, classes)(layer);
          return nb::make_tuple(made.inputs, array_of(std::move(made.start)), array_of(std::move(made.input)),
                                array_of(std::move(made.weight)));
        });
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
  bind_real<float>(m);
  bind_real<double>(m);
  bind_inference(m);
}

}  // namespace tacit::python
