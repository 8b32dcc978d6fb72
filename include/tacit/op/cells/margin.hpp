// Margin: arrays of this rank's patches padded by layers of ghost cells, including edges and corners.
#pragma once

#include <tacit/comm/exchange.hpp>
#include <tacit/op/cells/boxes.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace tacit::op {

/// The layout of padded arrays, with `width` layers of ghost cells around each patch, and their exchange. Ghosts are
/// filled from other patches and from the other end of a period; those beyond an end of the domain, or in no box, are
/// not changed.
class Margin {
 public:
  struct Patch {
    CellBox box;
    std::array<std::ptrdiff_t, 3> n{}, pad{};        ///< own cells; ghost layers (none along absent axes)
    std::ptrdiff_t line = 0, plane = 0, origin = 0;  ///< strides; position of the first own cell
    std::array<std::array<bool, 2>, 3> at_end{};     ///< [axis][low, high]: at an end of the domain, not periodic
    std::ptrdiff_t at(std::ptrdiff_t i, std::ptrdiff_t j, std::ptrdiff_t k) const {
      return origin + i + line * j + plane * k;
    }
    std::ptrdiff_t stride(int axis) const { return axis == 0 ? 1 : axis == 1 ? line : plane; }
  };

  /// The same width on all ranks. Collective.
  Margin(const Boxes& boxes, int width);
  int width() const { return width_; }
  /// Elements of a padded array.
  std::size_t size() const { return size_; }
  std::span<const Patch> patches() const { return patches_; }
  const std::shared_ptr<const comm::Pattern>& pattern() const { return pattern_; }

  /// Copies own cells, in the order of vectors and at stride `columns`, to a padded array. Local.
  template <class T>
  void load(const T* own, T* padded, std::size_t columns = 1) const {
    const T* from = own;
    for (const Patch& p : patches_)
      for (std::ptrdiff_t k = 0; k < p.n[2]; ++k)
        for (std::ptrdiff_t j = 0; j < p.n[1]; ++j, from += std::size_t(p.n[0]) * columns) {
          T* const to = padded + p.at(0, j, k);
          for (std::ptrdiff_t i = 0; i < p.n[0]; ++i) to[i] = from[std::size_t(i) * columns];
        }
  }
  /// Copies own cells back, in the order of vectors. Local.
  template <class T>
  void store(const T* padded, T* own) const {
    for (const Patch& p : patches_)
      for (std::ptrdiff_t k = 0; k < p.n[2]; ++k)
        for (std::ptrdiff_t j = 0; j < p.n[1]; ++j, own += p.n[0]) {
          const T* const from = padded + p.at(0, j, k);
          for (std::ptrdiff_t i = 0; i < p.n[0]; ++i) own[i] = from[i];
        }
  }
  /// Fills the ghost cells from own cells and from the received elements of the pattern. Local.
  template <class T>
  void place(const T* remote, T* padded, std::size_t columns = 1) const {
    for (const Run& r : local_)
      for (std::ptrdiff_t i = 0; i < r.count; ++i) padded[r.to + i] = padded[r.from + i];
    for (const Run& r : remote_)
      for (std::ptrdiff_t i = 0; i < r.count; ++i) padded[r.to + i] = remote[std::size_t(r.from + i) * columns];
  }
  /// Packs from a padded array, exchanges, and fills the ghosts. Sends nothing without neighbours. Collective.
  template <class T>
  void update(T* padded, comm::Exchange& exchange) const {
    const T* in = nullptr;
    int number = -1;
    if (exchange.comm().size() > 1) {
      number = exchange.open();
      T* const out = reinterpret_cast<T*>(exchange.outgoing(number));
      for (std::size_t i = 0; i < send_.size(); ++i) out[i] = padded[send_[i]];
      exchange.post(number);
      exchange.wait(number);
      in = reinterpret_cast<const T*>(exchange.incoming(number));
    }
    place(in, padded);
    if (number >= 0) exchange.close(number);
  }

 private:
  struct Run {
    std::ptrdiff_t to, from, count;
  };
  int width_;
  std::size_t size_ = 0;
  std::vector<Patch> patches_;
  std::vector<Run> local_, remote_;
  std::vector<std::ptrdiff_t> send_;  // positions in a padded array, in the order of the pattern
  std::shared_ptr<const comm::Pattern> pattern_;
};

/// What average_weights is given at an end of a line of cells.
enum class Given { nothing, value, slope };
/// Weights w of an extrapolation: let p be the polynomial with the averages u_k over the cells between `faces`
/// (ascending, one more than cells) and, where given, the value or slope d at `end`. Then the average of p over [low,
/// high] is sum w_k u_k (+ w_last d). There is one weight for each cell, and one more where d is given.
std::vector<double> average_weights(std::span<const double> faces, Given given, double end, double low, double high);

}  // namespace tacit::op
