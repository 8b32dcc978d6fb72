// Parallel-beam projector: line integrals of an image of square pixels, as a sparse matrix.
#pragma once

#include <tacit/comm/communicator.hpp>
#include <tacit/op/tiled_on_device.hpp>
#include <tacit/op/tiled_spmm.hpp>

#include <functional>
#include <memory>
#include <vector>

namespace tacit::app::tomography {

/// Ray (i, j), angle i and detector bin j: the line x cos t_i + y sin t_i = j + 1/2 - centre, in bins. The image has
/// width x height pixels centred on the rotation axis, x to the right and y upwards; pixel row 0 is on top.
struct Geometry {
  Local width = 0, height = 0;  ///< of the image, in pixels
  Local detectors = 0;
  std::vector<double> angles;  ///< t_i in radians
  double centre = 0;  ///< where the rotation axis meets the detector, in bins from its left edge; detectors / 2
                      ///< when it is in the middle. May lie off the detector.
  double pixel = 1;   ///< side of a pixel, in bins

  Global rays() const { return Global(angles.size()) * detectors; }
  Global pixels() const { return Global(width) * height; }
};

/// How a projector numbers rays and pixels: along Hilbert curves in the (detector, angle) plane and in the image, or as
/// sinograms and images are stored (angle by angle, row by row).
enum class Order { hilbert, natural };

struct Beam;  // the constants of an angle
struct Box;   // of pixels

/// The matrix A of rays x pixels whose entries are the lengths of rays within pixels, as in Siddon (1985, doi
/// 10.1118/1.595715). Each entry is a closed form of the ray's distance from the pixel's centre, so rows of A and of
/// A^T are made independently, in parallel, and agree to the bit. Lengths below 1e-8 pixels are left out; a ray along
/// an edge is counted in one of the two pixels.
class Projector {
 public:
  /// Error(usage): sizes below 1, no angles, numbers that are not finite, pixel <= 0. Local.
  explicit Projector(Geometry geometry, Order order = Order::hilbert);
  ~Projector();
  Projector(Projector&&) noexcept;

  const Geometry& geometry() const { return geometry_; }
  /// The ray (angle * detectors + bin) and the pixel (row * width + column) at each place of the numbering.
  const std::vector<Local>& ray_order() const { return ray_order_; }
  const std::vector<Local>& pixel_order() const { return pixel_order_; }

  /// A as an operator from images (space of pixels(), in the order pixel_order()) to sinograms (space of rays(),
  /// ray_order()), distributed by pixels: every rank has a compact patch of the image and of the sinogram.
  ///
  /// Entries are stored or, with TiledFormat::computed, computed in every product: this takes no time to build, memory
  /// only for two padded images and a sinogram of up to four columns, or for a tile and a few angles of 32 or 64
  /// columns of floats, and for up to `computed_columns` columns it is faster than the stored matrix; with 32 columns
  /// some 24 iterations take as long as they do with building the matrix. `automatic` computes up to this number of
  /// columns, and wherever the stored matrix would not fit the machine's memory; it stores where options of stored
  /// matrices are given (16-bit values or vectors, clusters, block_rows, tile), and where many angles have no fast
  /// kernel (pixels below 0.71 or above 1.8 bins). With `tune`, it takes for any number of columns what is faster in a
  /// product with A and one with A^T, computed entries or the fastest stored matrix; the choice is kept in
  /// `tuning_file`.
  ///
  /// With computed entries, an element that is not finite also spoils results of neighbouring rays or pixels.
  /// Collective. Error(usage): computed together with options of stored matrices. Error(environment), before anything
  /// is built, where a rank's part would not fit the machine's memory.
  template <class T>
  std::shared_ptr<op::TiledSpmm<T>> matrix(const comm::Communicator& comm,
                                           const op::TiledSpmmOptions& options = {}) const;

  /// The same in the memory M of a device, stored, for the options of op::TiledOnDevice. Built on the host.
  /// Collective.
  template <class T, Memory M>
  std::shared_ptr<op::TiledOnDevice<T, M>> on_device(const comm::Communicator& comm,
                                                     const op::TiledSpmmOptions& options = {}) const;

  static constexpr int computed_columns = 8;

  /// An estimate of the number of entries of A: on average as many rays meet a pixel as its shadow has bins. Local.
  double expected_entries() const;

  /// Appends the rows of A (rays) or of A^T (pixels) at places begin to end - 1; columns are places, too. Local, from
  /// any number of threads.
  template <class T>
  void ray_rows(Local begin, Local end, op::RowBuffer<T>& rows) const;
  template <class T>
  void pixel_rows(Local begin, Local end, op::RowBuffer<T>& rows) const;

 private:
  enum class Way { store, measure, compute };
  template <class T>
  Way way(const op::TiledSpmmOptions& options, int ranks) const;
  template <class T>
  bool computes_quicker(const comm::Communicator& comm, const op::TiledSpmmOptions& options,
                        const std::function<std::shared_ptr<op::TiledSpmm<T>>(bool computed)>& make) const;
  template <class T>
  std::shared_ptr<op::TiledSpmm<T>> computed(const layout::Space& range, const layout::Space& domain,
                                             const op::TiledSpmmOptions& options) const;
  template <class A, class T>
  std::shared_ptr<A> stored(const layout::Space& range, const layout::Space& domain,
                            const op::TiledSpmmOptions& options) const;
  Box around(Local begin, Local end) const;
  Global count_shadows(Local begin, Local end, std::vector<char>& hit) const;
  template <class F>
  void each_pixel(Local ray, const Box& box, F&& f) const;
  template <class F>
  void each_ray(Local pixel, F&& f) const;

  Geometry geometry_;
  std::vector<Beam> beams_;
  std::vector<double> cos_, sin_, half_, bin_;  // of angles, in bins; positions of the bins, in pixels
  std::vector<Local> ray_order_, pixel_order_, ray_place_, pixel_place_;
};

}  // namespace tacit::app::tomography
