#include <tacit/precond/rigid_body.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tacit::precond {

RigidBodyModes::RigidBodyModes(std::span<const double> coordinates, int dimension, const comm::Communicator& comm) {
  comm::collective(comm, [&] {
    require(dimension == 2 || dimension == 3, "nodes have ", dimension, " coordinates; 2 or 3 are needed");
    require(coordinates.size() % std::size_t(dimension) == 0, coordinates.size(), " coordinates are no whole nodes of ",
            dimension);
    const auto wrong =
        std::find_if_not(coordinates.begin(), coordinates.end(), [](double x) { return std::isfinite(x); });
    require(wrong == coordinates.end(), "coordinates have ", wrong == coordinates.end() ? 0.0 : *wrong, " at node ",
            (wrong - coordinates.begin()) / dimension, " of rank ", comm.rank(),
            " (counted from 0); finite numbers are needed");
  });
  const auto D = std::size_t(dimension);
  // The box instead of the mean: its corners do not depend on the order of additions. Halves, as a sum may overflow.
  std::array<double, 3> centre{}, half{};
  double length = 0;
  for (std::size_t d = 0; d < D; ++d) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (std::size_t i = d; i < coordinates.size(); i += D) {
      low = std::min(low, coordinates[i]);
      high = std::max(high, coordinates[i]);
    }
    low = -comm.all_max(-low), high = comm.all_max(high);
    if (!(low <= high)) low = high = 0;  // no nodes on any rank
    centre[d] = low / 2 + high / 2;
    half[d] = high / 2 - low / 2;
    length = std::max(length, half[d]);
  }
  std::vector<std::array<std::size_t, 2>> planes;  // rotations take the first axis to the second
  for (const auto [a, b] : {std::array<std::size_t, 2>{1, 2}, {2, 0}, {0, 1}})
    if (a < D && b < D && (half[a] > 0 || half[b] > 0)) planes.push_back({a, b});
  count = dimension + int(planes.size());
  const auto columns = std::size_t(count);
  values.assign(coordinates.size() * columns, 0.0);
  for (std::size_t i = 0; i < coordinates.size(); i += D) {
    const auto at = [&](std::size_t d) { return (coordinates[i + d] - centre[d]) / length; };
    for (std::size_t d = 0; d < D; ++d) values[(i + d) * columns + d] = 1;
    for (std::size_t r = 0; r < planes.size(); ++r) {
      const auto [a, b] = planes[r];
      values[(i + a) * columns + D + r] = -at(b);
      values[(i + b) * columns + D + r] = at(a);
    }
  }
}

}  // namespace tacit::precond
