// Tacit's sparse networks for Python, in host memory and in that of a GPU.
#include "../described.hpp"
#include "../on_gpu.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <tacit/app/inference/files.hpp>
#include <tacit/app/inference/network.hpp>
#include <tacit/app/inference/on_device.hpp>

namespace tacit::python {
namespace {

namespace inference = app::inference;
using Request = inference::InferenceRequest;
using Dense = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Classes = nb::ndarray<const Local, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

inference::LayerSource radixnet_of(const std::vector<int>& radices, int width, float weight, const Classes& classes) {
  std::vector<std::vector<Local>> blocks;
  for (std::size_t g = 0; g < classes.shape(0); ++g)
    blocks.emplace_back(classes.data() + g * classes.shape(1), classes.data() + (g + 1) * classes.shape(1));
  return inference::radixnet(radices, width, weight, std::move(blocks));
}

// Network and NetworkOnDevice.
template <class Network>
nb::class_<Network> bind_class(nb::module_& m, const char* name) {
  return nb::class_<Network>(m, name)
      .def_prop_ro("layers", &Network::layers)
      .def_prop_ro("inputs", &Network::inputs)
      .def_prop_ro("outputs", &Network::outputs)
      .def_prop_ro("streams", &Network::streams)
      .def(
          "infer",
          [](const Network& n, const nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>& bits,
             const Dense& dense, const Request& request, const nb::object& callback) {
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
}

// source(l) gives (inputs, starts, inputs of weights, weights), rows being output neurons.
inference::LayerSource source_of(nb::object source) {
  // Every copy of the source owns the Python object; the last one releases it with the GIL.
  const std::shared_ptr<nb::object> held(new nb::object(std::move(source)), [](nb::object* p) {
    WithGil lock;
    delete p;
  });
  return [held](int l) {
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
}

nb::tuple tuple_of(inference::Layer layer) {
  return nb::make_tuple(layer.inputs, array_of(std::move(layer.start)), array_of(std::move(layer.input)),
                        array_of(std::move(layer.weight)));
}

// The lines of a file, or of a text that came through a pipe of this name.
io::Triples lines_of(const std::filesystem::path& path, const nb::object& text, io::DealtRows rows) {
  if (text.is_none()) return unlocked([&] { return io::read_triples(path, rows); });
  const auto bytes = nb::cast<nb::bytes>(text);
  const std::string_view all(bytes.c_str(), bytes.size());
  return unlocked([&] { return io::parse_triples(all, path, rows); });
}

void bind_files(nb::module_& m) {
  // The rows of a layer of lines, as radixnet_layer's.
  m.def(
      "read_layer",
      [](const std::filesystem::path& path, Local neurons, const nb::object& text) {
        const auto lines = lines_of(path, text, {});
        return tuple_of(unlocked([&] { return inference::layer_of(lines, neurons, path); }));
      },
      nb::arg(), nb::arg(), nb::arg().none());
  // (images of the file, bits, numbers) of the images dealt to a part; one of the arrays is empty.
  m.def(
      "read_images",
      [](const std::filesystem::path& path, Local neurons, const nb::object& text, int part, int parts) {
        const auto lines = lines_of(path, text, {part, parts});
        auto images = unlocked([&] { return inference::images_of(lines, neurons, {part, parts}, path); });
        return nb::make_tuple(images.count, array_of(std::move(images.bits)), array_of(std::move(images.dense)));
      },
      nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
  m.def("write_triples", [](const std::filesystem::path& path, const Elements<std::int32_t>& row,
                            const Elements<std::int32_t>& column, const Elements<float>& value) {
    const WithoutGil free;
    io::write_triples(path, {row.data(), row.size()}, {column.data(), column.size()}, {value.data(), value.size()});
  });
}

// gpu: below 0 in host memory.
nb::object made(int layers, const inference::LayerSource& source, const Request& o, int gpu) {
  return made_on(gpu, comm::Communicator::self(), [&]<class M>(M) {
    if constexpr (std::same_as<M, Host>)
      return std::make_shared<inference::Network>(layers, source, o.values, o.weight_bytes);
    else return std::make_shared<inference::NetworkOnDevice<M>>(layers, source, gpu, o.values, o.weight_bytes);
  });
}

}  // namespace

void bind_inference(nb::module_& m) {
  bind_options<Request>(m, "InferenceOptions", "inference", inference::inference_options(),
                        inference::inference_takers());
  bind_class<inference::Network>(m, "Network");
#ifdef TACIT_HAVE_CUDA
  using OnDevice = inference::NetworkOnDevice<Device>;
  bind_class<OnDevice>(m, "DeviceNetwork").def_prop_ro("gpu", &OnDevice::gpu);
#endif
  m.def("network", [](int layers, nb::object source, const Request& o, int gpu) {
    return made(layers, source_of(std::move(source)), o, gpu);
  });
  m.def("radixnet",
        [](int layers, const std::vector<int>& radices, int width, float weight, const Classes& classes,
           const Request& o, int gpu) { return made(layers, radixnet_of(radices, width, weight, classes), o, gpu); });
  // The rows of layer l of the same, for files and checks.
  m.def("radixnet_layer",
        [](int layer, const std::vector<int>& radices, int width, float weight, const Classes& classes) {
          return tuple_of(unlocked([&] { return radixnet_of(radices, width, weight, classes)(layer); }));
        });
  bind_files(m);
}

}  // namespace tacit::python
