// Parallel-beam projector: line integrals of an image of square pixels, as a sparse matrix.
#pragma once

#include <tacit/comm/communicator.hpp>
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

/// Which ray and pixel numbers a projector works on: along Hilbert curves, in the image and in the (detector, angle)
/// plane, or as they are stored (rows of the image, angle by angle).
enum class Order { hilbert, natural };

struct Beam;  // what is known of an angle
struct Box;   // of pixels

/// The length of ray (i, j) within a pixel, as Siddon (1985, doi 10.1118/1.595715) has it, for all rays and pixels: A,
/// of rays x pixels. Each entry is a closed form of the ray's distance from the pixel's centre, so rows of A and rows
/// of A^T are made independently, in parallel, and agree to the bit. Lengths below 1e-8 pixels are left out; a ray
/// along an edge belongs to one of the two pixels.
class Projector {
 public:
  /// Error(usage) on sizes, angles or a centre that do not fit.
  explicit Projector(Geometry geometry, Order order = Order::hilbert);
  ~Projector();
  Projector(Projector&&) noexcept;

  const Geometry& geometry() const { return geometry_; }
  /// Ray angle * detectors + bin, and pixel row * width + column, at each place; and the reverse.
  const std::vector<Local>& ray_order() const { return ray_order_; }
  const std::vector<Local>& pixel_order() const { return pixel_order_; }

  /// A as an operator from images (space of pixels(), places on the curve) to sinograms (space of rays(), likewise),
  /// spread by pixels: every rank has a compact patch of the image and of the sinogram. Its entries are stored, or with
  /// TiledFormat::computed made anew in every product: no time to build, no memory but two padded images and a
  /// sinogram for up to four columns, and up to `computed_columns` columns quicker than building and multiplying what
  /// is stored. `automatic` computes up to so many, unless options are given that only a stored matrix has (16-bit
  /// values or vectors, clusters, block_rows, tile) or most angles would go the slow way (pixels below 0.71 or
  /// above 1.8 bins), and also where a stored one would not fit the machine's memory. With `tune` as well, any number
  /// of columns: the quicker of what is computed and the quickest of what is stored, by a product with A and one with
  /// A^T; the choice is kept in `tuning_file` beside the stored matrix's. A number that is not finite spoils what its
  /// neighbours' rays or pixels see as well where entries are computed. Collective. Error(usage) on computed beside
  /// options of a stored matrix. Error(environment) before anything is built where a rank's share cannot fit the
  /// machine's memory.
  template <class T>
  std::shared_ptr<op::TiledSpmm<T>> matrix(const comm::Communicator& comm,
                                           const op::TiledSpmmOptions& options = {}) const;

  static constexpr int computed_columns = 8;

  /// How many entries A has, about: a pixel's shadow, in bins, is the mean number of rays through it.
  double expected_entries() const;

  /// Entries of the rows of A (rays) or of A^T (pixels) at places begin to end - 1, column numbers being places too.
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
  template <class T>
  std::shared_ptr<op::TiledSpmm<T>> stored(const layout::Space& range, const layout::Space& domain,
                                           const op::TiledSpmmOptions& options) const;
  Box around(Local begin, Local end) const;
  Global count_shadows(Local begin, Local end, std::vector<char>& hit) const;
  template <class F>
  void each_pixel(Local ray, const Box& box, F&& f) const;
  template <class F>
  void each_ray(Local pixel, F&& f) const;

  Geometry geometry_;
  std::vector<Beam> beams_;
  std::vector<double> cos_, sin_, half_, bin_;  // of angles; where bins are, in pixels
  std::vector<Local> ray_order_, pixel_order_, ray_place_, pixel_place_;
};

}  // namespace tacit::app::tomography
