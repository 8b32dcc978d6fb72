#include "transfer.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/tasks.hpp>

#include <algorithm>
#include <cmath>

namespace tacit::precond::mg {
namespace {

std::ptrdiff_t width_of(const op::Boxes& from, const op::Boxes& to, const std::array<AxisMap, 3>& maps) {
  std::ptrdiff_t most = 0;
  for (std::size_t p = 0; p < to.patches().size(); ++p)
    for (std::size_t a = 0; a < 3; ++a) {
      const op::CellBox &s = from.patches()[p], &t = to.patches()[p];
      for (Global i = t.lower[a]; i < t.upper[a]; ++i) {
        const std::ptrdiff_t first = maps[a].first[std::size_t(i)];
        most = std::max({most, std::ptrdiff_t(s.lower[a]) - first, first + maps[a].width - std::ptrdiff_t(s.upper[a])});
      }
    }
  return most;
}

}  // namespace

AxisMap interpolation_map(const op::Domain& fine, const op::Domain& coarse, const std::vector<Local>& parent, int axis,
                          Interpolation order, bool known) {
  const auto a = std::size_t(axis);
  const Global n = coarse.cells(axis);
  const bool periodic = coarse.periodic(axis) && axis < coarse.dimensions;
  const auto degree = std::ptrdiff_t(order);
  const auto& f = coarse.faces[a];
  const double length = f.back() - f.front();
  const auto face = [&](Global i) {  // of any turn
    const Global turn = i >= 0 ? i / n : -((n - 1 - i) / n);
    return f[std::size_t(i - turn * n)] + double(turn) * length;
  };
  AxisMap map;
  map.width = degree + 1;
  for (Global g = 0; g < fine.cells(axis); ++g) {
    const Global c = parent[std::size_t(g)];
    const double away = fine.centre(axis, g) - coarse.centre(axis, c);
    std::vector<double> w(std::size_t(map.width), 0.0);
    Global low = c - degree / 2 - (degree % 2 == 1 && away < 0 ? 1 : 0), high = low + degree + 1;
    const bool whole = std::abs(fine.width(axis, g) - coarse.width(axis, c)) < 1e-9 * fine.width(axis, g);
    if (degree == 0 || whole) {
      w[std::size_t(c - low)] = 1;
      map.first.push_back(low);
    } else {
      auto given = op::Given::nothing;
      double end = 0;
      if (!periodic) {
        const bool below = low<0, above = high> n;
        if (known && (below || above)) {
          const std::size_t side = below && (!above || away < 0) ? 0 : 1;
          given = coarse.boundary[a][side] == op::Boundary::dirichlet ? op::Given::value : op::Given::slope;
          end = side == 0 ? f.front() : f.back();
          low = std::max<Global>(low, 0), high = std::min<Global>(high, n);
        } else {
          if (below) high -= low, low = 0;
          if (high > n) low = std::max<Global>(0, low - (high - n)), high = n;
        }
      }
      std::vector<double> faces;
      for (Global i = low; i <= high; ++i) faces.push_back(face(i));
      const auto v =
          op::average_weights(faces, given, end, fine.faces[a][std::size_t(g)], fine.faces[a][std::size_t(g) + 1]);
      for (Global i = low; i < high; ++i) w[std::size_t(i - low)] = v[std::size_t(i - low)];
      map.first.push_back(low);
    }
    // Cells beyond an end have weight 0: they are not asked for.
    if (!periodic) {
      auto& first = map.first.back();
      while (first < 0) w.erase(w.begin()), w.push_back(0), ++first;
      while (first > 0 && first + map.width > n) w.insert(w.begin(), 0), w.pop_back(), --first;
    }
    map.weight.insert(map.weight.end(), w.begin(), w.end());
  }
  return map;
}

AxisMap adjoint_of(const AxisMap& map, std::ptrdiff_t fine, std::ptrdiff_t coarse) {
  struct Entry {
    std::ptrdiff_t at;
    double weight;
  };
  std::vector<std::vector<Entry>> of(static_cast<std::size_t>(coarse));
  for (std::ptrdiff_t g = 0; g < fine; ++g)
    for (std::ptrdiff_t e = 0; e < map.width; ++e) {
      const double w = map.weight[std::size_t(g * map.width + e)];
      if (w == 0) continue;
      const std::ptrdiff_t s = map.first[std::size_t(g)] + e;
      const std::ptrdiff_t turn = s >= 0 ? s / coarse : -((coarse - 1 - s) / coarse);
      of[std::size_t(s - turn * coarse)].push_back({g - turn * fine, w});
    }
  AxisMap made;
  for (const auto& list : of) {
    std::ptrdiff_t low = list.front().at, high = low;
    for (const Entry& e : list) low = std::min(low, e.at), high = std::max(high, e.at);
    made.first.push_back(low);
    made.width = std::max(made.width, high - low + 1);
  }
  made.weight.assign(of.size() * std::size_t(made.width), 0.0);
  for (std::size_t c = 0; c < of.size(); ++c)
    for (const Entry& e : of[c])
      made.weight[c * std::size_t(made.width) + std::size_t(e.at - made.first[c])] += e.weight;
  return made;
}

template <class S>
Transfer<S>::Transfer(const op::Boxes& from, const op::Boxes& to, std::array<AxisMap, 3> maps)
    : maps_(std::move(maps)), margin_(from, int(width_of(from, to, maps_))) {
  if (from.space().comm().size() > 1)
    exchange_ = std::make_unique<comm::Exchange>(from.space().comm(), margin_.pattern(), sizeof(S));
  for (std::size_t a = 0; a < 3; ++a) weight_[a].assign(maps_[a].weight.begin(), maps_[a].weight.end());
  for (std::size_t p = 0; p < to.count(); ++p) target_.push_back(to.own(p)), offset_.push_back(to.offset(p));
  padded_.assign(margin_.size(), S(0));
}

template <class S>
void Transfer<S>::apply(const S* from, S* to) {
  margin_.load(from, padded_.data());
  if (exchange_) margin_.update(padded_.data(), *exchange_);
  else margin_.place(static_cast<const S*>(nullptr), padded_.data());
  for (std::size_t q = 0; q < target_.size(); ++q) {
    const auto& p = margin_.patches()[q];
    const op::CellBox& t = target_[q];
    const auto nx = std::ptrdiff_t(t.size(0)), ny = std::ptrdiff_t(t.size(1));
    const std::ptrdiff_t wide = p.n[0] + 2 * p.pad[0];
    exec::each(std::size_t(t.size(2)), nx * ny * t.size(2) > (1 << 14), [&](std::size_t k) {
      static thread_local std::vector<S> sum;
      if (sum.size() < std::size_t(wide)) sum.resize(std::size_t(wide));
      const auto z = std::size_t(t.lower[2]) + k;
      for (std::ptrdiff_t j = 0; j < ny; ++j) {
        const auto y = std::size_t(t.lower[1] + j);
        std::fill_n(sum.data(), wide, S(0));
        for (std::ptrdiff_t c = 0; c < maps_[2].width; ++c)
          for (std::ptrdiff_t b = 0; b < maps_[1].width; ++b) {
            const S w = weight_[2][z * std::size_t(maps_[2].width) + std::size_t(c)] *
                        weight_[1][y * std::size_t(maps_[1].width) + std::size_t(b)];
            if (w == S(0)) continue;
            const S* const line = padded_.data() + p.at(-p.pad[0], maps_[1].first[y] + b - p.box.lower[1],
                                                        maps_[2].first[z] + c - p.box.lower[2]);
#pragma GCC ivdep
            for (std::ptrdiff_t i = 0; i < wide; ++i) sum[std::size_t(i)] += w * line[i];
          }
        S* const out = to + offset_[q] + nx * (j + ny * std::ptrdiff_t(k));
        const std::ptrdiff_t width = maps_[0].width;
        for (std::ptrdiff_t i = 0; i < nx; ++i) {
          const auto x = std::size_t(t.lower[0] + i);
          const S* const here = sum.data() + (maps_[0].first[x] - p.box.lower[0] + p.pad[0]);
          const S* const w = weight_[0].data() + x * std::size_t(width);
          S value = w[0] * here[0];
          for (std::ptrdiff_t e = 1; e < width; ++e) value += w[e] * here[e];
          out[i] = value;
        }
      }
    });
    Trace::work("transfer", double(p.n[0] * p.n[1] * p.n[2] + t.cells()) * sizeof(S),
                2.0 * double(t.cells()) * double(maps_[0].width + maps_[1].width * maps_[2].width));
  }
}

template class Transfer<float>;
template class Transfer<double>;

}  // namespace tacit::precond::mg
