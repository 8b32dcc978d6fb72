#include <tacit/op/cells/margin.hpp>

#include <algorithm>
#include <cmath>

namespace tacit::op {

Margin::Margin(const Boxes& boxes, int width) : width_(width) {
  const auto& space = boxes.space();
  const Domain& domain = boxes.domain();
  std::ptrdiff_t size = 0;
  for (std::size_t i = 0; i < boxes.count(); ++i) {
    Patch p;
    p.box = boxes.own(i);
    for (std::size_t a = 0; a < 3; ++a) {
      const bool there = int(a) < domain.dimensions;
      p.n[a] = std::ptrdiff_t(p.box.size(int(a)));
      p.pad[a] = there ? width : 0;
      if (there && !domain.periodic(int(a)))
        p.at_end[a] = {p.box.lower[a] == 0, p.box.upper[a] == domain.cells(int(a))};
    }
    p.line = (p.n[0] + 2 * p.pad[0] + 7) / 8 * 8;
    p.plane = p.line * (p.n[1] + 2 * p.pad[1]);
    p.origin = size + p.pad[0] + p.line * p.pad[1] + p.plane * p.pad[2];
    size += p.plane * (p.n[2] + 2 * p.pad[2]);
    patches_.push_back(p);
  }
  size_ = std::size_t(size);

  // The position of an own cell in a padded array.
  const auto place_of = [&](Local position) {
    std::size_t i = patches_.size() - 1;
    while (position < boxes.offset(i)) --i;
    const Patch& p = patches_[i];
    const std::ptrdiff_t in = position - boxes.offset(i);
    return p.at(in % p.n[0], in / p.n[0] % p.n[1], in / p.n[0] / p.n[1]);
  };
  std::vector<std::pair<std::ptrdiff_t, Global>> wanted;  // position, global index of the cell there
  std::vector<Global> needed;
  const auto add = [](std::vector<Run>& runs, std::ptrdiff_t to, std::ptrdiff_t from) {
    if (!runs.empty() && runs.back().to + runs.back().count == to && runs.back().from + runs.back().count == from)
      ++runs.back().count;
    else runs.push_back({to, from, 1});
  };
  for (const Patch& p : patches_)
    for (std::ptrdiff_t k = -p.pad[2]; k < p.n[2] + p.pad[2]; ++k)
      for (std::ptrdiff_t j = -p.pad[1]; j < p.n[1] + p.pad[1]; ++j) {
        const bool inside = k >= 0 && k < p.n[2] && j >= 0 && j < p.n[1];
        for (std::ptrdiff_t i = -p.pad[0]; i < p.n[0] + p.pad[0]; ++i) {
          if (inside && i == 0) i = p.n[0];
          if (i >= p.n[0] + p.pad[0]) break;
          const Global g = boxes.index({p.box.lower[0] + i, p.box.lower[1] + j, p.box.lower[2] + k});
          if (g < 0) continue;
          if (g >= space.begin() && g < space.end()) add(local_, p.at(i, j, k), place_of(Local(g - space.begin())));
          else wanted.emplace_back(p.at(i, j, k), g), needed.push_back(g);
        }
      }
  std::sort(needed.begin(), needed.end());
  needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
  for (const auto& [to, g] : wanted)
    add(remote_, to, std::lower_bound(needed.begin(), needed.end(), g) - needed.begin());
  pattern_ = std::make_shared<const comm::Pattern>(
      comm::Pattern::build(space.comm(), space.partition().offsets(), std::move(needed)));
  for (const Local i : pattern_->send_index) send_.push_back(place_of(i));
}

std::vector<double> average_weights(std::span<const double> faces, Given given, double end, double low, double high) {
  const std::size_t cells = faces.size() - 1, n = cells + (given != Given::nothing);
  // Requires exactness for 1, t, t^2, .. with t = (x - x_0) / h: a linear system for the weights.
  const double x0 = faces.front(), h = (faces.back() - faces.front()) / double(cells);
  const auto average = [](double a, double b, std::size_t power) {
    return (std::pow(b, double(power + 1)) - std::pow(a, double(power + 1))) / (double(power + 1) * (b - a));
  };
  std::vector<double> m(n * (n + 1));  // a row for each power: its averages and the value or slope; its target average
  for (std::size_t r = 0; r < n; ++r) {
    double* const row = m.data() + r * (n + 1);
    for (std::size_t c = 0; c < cells; ++c) row[c] = average((faces[c] - x0) / h, (faces[c + 1] - x0) / h, r);
    const double t = (end - x0) / h;
    if (given == Given::value) row[cells] = std::pow(t, double(r));
    if (given == Given::slope) row[cells] = r == 0 ? 0 : double(r) * std::pow(t, double(r - 1)) / h;
    row[n] = average((low - x0) / h, (high - x0) / h, r);
  }
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t best = k;
    for (std::size_t r = k + 1; r < n; ++r)
      if (std::abs(m[r * (n + 1) + k]) > std::abs(m[best * (n + 1) + k])) best = r;
    std::swap_ranges(&m[k * (n + 1)], &m[k * (n + 1)] + n + 1, &m[best * (n + 1)]);
    for (std::size_t r = 0; r < n; ++r) {
      if (r == k) continue;
      const double factor = m[r * (n + 1) + k] / m[k * (n + 1) + k];
      for (std::size_t c = k; c <= n; ++c) m[r * (n + 1) + c] -= factor * m[k * (n + 1) + c];
    }
  }
  std::vector<double> w(n);
  for (std::size_t k = 0; k < n; ++k) w[k] = m[k * (n + 1) + n] / m[k * (n + 1) + k];
  return w;
}

}  // namespace tacit::op
