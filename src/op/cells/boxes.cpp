#include <tacit/op/cells/boxes.hpp>

#include <tacit/layout/hilbert.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace tacit::op {
namespace {

using Cell = std::array<Global, 3>;

// Merges boxes that share a whole side, along each axis in turn, until no two do.
void merge(std::vector<CellBox>& boxes) {
  for (bool merged = true; merged;) {
    merged = false;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::size_t b = (axis + 1) % 3, c = (axis + 2) % 3;
      std::sort(boxes.begin(), boxes.end(), [&](const CellBox& s, const CellBox& t) {
        const auto key = [&](const CellBox& x) {
          return std::array{x.lower[c], x.upper[c], x.lower[b], x.upper[b], x.lower[axis]};
        };
        return key(s) < key(t);
      });
      std::vector<CellBox> out;
      for (const CellBox& box : boxes) {
        if (!out.empty() && out.back().lower[c] == box.lower[c] && out.back().upper[c] == box.upper[c] &&
            out.back().lower[b] == box.lower[b] && out.back().upper[b] == box.upper[b] &&
            out.back().upper[axis] == box.lower[axis]) {
          out.back().upper[axis] = box.upper[axis];
          merged = true;
        } else {
          out.push_back(box);
        }
      }
      boxes = std::move(out);
    }
  }
  std::sort(boxes.begin(), boxes.end(), [](const CellBox& s, const CellBox& t) {
    return std::array{s.lower[2], s.lower[1], s.lower[0]} < std::array{t.lower[2], t.lower[1], t.lower[0]};
  });
}

// The numbers of parts along the axes, with product `ranks`, that minimise the surface of a part.
std::array<int, 3> process_grid(int ranks, const Domain& d) {
  std::array<int, 3> best{1, 1, 1};
  double least = std::numeric_limits<double>::infinity();
  for (int x = 1; x <= ranks; ++x) {
    if (ranks % x != 0) continue;
    for (int y = 1; y <= ranks / x; ++y) {
      if (ranks / x % y != 0) continue;
      const int z = ranks / x / y;
      const double e[3] = {double(d.cells(0)) / x, double(d.cells(1)) / y, double(d.cells(2)) / z};
      if (std::min({e[0], e[1], e[2]}) < 1) continue;
      double surface = 0;
      const int parts[3] = {x, y, z};
      for (int a = 0; a < 3; ++a)
        if (parts[a] > 1) surface += e[(a + 1) % 3] * e[(a + 2) % 3] * (a == 0 ? 1.02 : a == 1 ? 1.01 : 1);
      if (surface < least) least = surface, best = {x, y, z};
    }
  }
  return best;
}

}  // namespace

Domain Domain::uniform(std::vector<Global> n, std::vector<std::array<Boundary, 2>> b, std::vector<double> lengths) {
  require(n.size() >= 1 && n.size() <= 3, "a domain of ", n.size(), " axes; 1 to 3 are known");
  require(b.size() == n.size(), "a domain of ", n.size(), " axes was given conditions for ", b.size());
  if (lengths.empty()) lengths.assign(n.size(), 1.0);
  require(lengths.size() == n.size(), "a domain of ", n.size(), " axes was given ", lengths.size(), " lengths");
  Domain d;
  d.dimensions = int(n.size());
  double all = 1;
  for (std::size_t a = 0; a < 3; ++a) {
    if (a >= n.size()) {
      d.faces[a] = {0, 1};
      d.boundary[a] = {Boundary::neumann, Boundary::neumann};
      continue;
    }
    require(n[a] >= 1 && n[a] < (Global(1) << 31), "axis ", a, " has ", n[a], " cells; 1 to 2^31 - 1 are needed");
    require(std::isfinite(lengths[a]) && lengths[a] > 0, "axis ", a, " has the length ", lengths[a],
            "; a positive number is needed");
    require((b[a][0] == Boundary::periodic) == (b[a][1] == Boundary::periodic), "axis ", a,
            " is periodic at one end only");
    all *= double(n[a]);
    d.faces[a].resize(std::size_t(n[a]) + 1);
    for (Global i = 0; i <= n[a]; ++i) d.faces[a][std::size_t(i)] = lengths[a] * (double(i) / double(n[a]));
    d.boundary[a] = b[a];
  }
  require(all < 0x1p62, "a domain of ", all, " cells; fewer than 2^62 are possible");
  return d;
}

Domain Domain::uniform(std::vector<Global> n, Boundary everywhere) {
  const std::size_t axes = n.size();
  return uniform(std::move(n), std::vector<std::array<Boundary, 2>>(axes, {everywhere, everywhere}));
}

double Domain::distance(int axis, Global i) const {
  const Global n = cells(axis);
  if (i == 0 || i == n) {
    if (periodic(axis)) return 0.5 * (width(axis, 0) + width(axis, n - 1));
    return 0.5 * width(axis, i == 0 ? 0 : n - 1);
  }
  return centre(axis, i) - centre(axis, i - 1);
}

bool Domain::uniform(int axis) const {
  const double w = (faces[std::size_t(axis)].back() - faces[std::size_t(axis)].front()) / double(cells(axis));
  for (Global i = 0; i < cells(axis); ++i)
    if (std::abs(width(axis, i) - w) > 1e-9 * w) return false;
  return true;
}

Boxes::Boxes(comm::Communicator comm, Domain domain, std::span<const CellBox> boxes, std::span<const int> owners)
    : domain_(std::move(domain)) {
  require(boxes.size() == owners.size(), boxes.size(), " boxes were given ", owners.size(), " owners");
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    require(owners[i] >= 0 && owners[i] < comm.size(), "box ", i, " belongs to rank ", owners[i], " of ", comm.size());
    for (int a = 0; a < 3; ++a) {
      const auto k = std::size_t(a);
      require(boxes[i].lower[k] >= 0 && boxes[i].upper[k] <= domain_.cells(a) && boxes[i].lower[k] < boxes[i].upper[k],
              "box ", i, " has cells [", boxes[i].lower[k], ", ", boxes[i].upper[k], ") along axis ", a, ", which has ",
              domain_.cells(a));
    }
  }
  std::vector<Global> counts(std::size_t(comm.size()), 0);
  for (std::size_t i = 0; i < boxes.size(); ++i) counts[std::size_t(owners[i])] += boxes[i].cells();
  space_ = std::make_shared<const layout::Space>(
      layout::Space::distributed(std::move(comm), layout::Partition::of_counts(counts)));
  for (int a = 0; a < 3; ++a) {
    std::set<Global> at{0, domain_.cells(a)};
    for (const CellBox& b : boxes) at.insert(b.lower[std::size_t(a)]), at.insert(b.upper[std::size_t(a)]);
    cuts_[std::size_t(a)].assign(at.begin(), at.end());
  }
  place({boxes.begin(), boxes.end()}, {owners.begin(), owners.end()});
}

void Boxes::place(std::vector<CellBox> boxes, std::vector<int> owners) {
  std::map<int, std::vector<CellBox>> of_rank;
  for (std::size_t i = 0; i < boxes.size(); ++i) of_rank[owners[i]].push_back(boxes[i]);
  const int ranks = space_->comm().size();
  first_.assign(std::size_t(ranks) + 1, 0);
  patches_.clear(), owners_.clear(), start_.clear();
  Global at = 0;
  for (int r = 0; r < ranks; ++r) {
    auto& mine = of_rank[r];
    merge(mine);
    for (const CellBox& b : mine) {
      patches_.push_back(b), owners_.push_back(r), start_.push_back(at);
      at += b.cells();
    }
    first_[std::size_t(r) + 1] = patches_.size();
  }
  // Bins have the size of the smallest patch, or larger ones so that there are at most a few times as many as patches.
  for (std::size_t a = 0; a < 3; ++a) {
    Global least = domain_.cells(int(a));
    for (const CellBox& b : patches_) least = std::min(least, b.size(int(a)));
    bin_[a] = std::max<Global>(1, least);
  }
  const auto count = [&] {
    double all = 1;
    for (std::size_t a = 0; a < 3; ++a)
      bins_[a] = (domain_.cells(int(a)) + bin_[a] - 1) / bin_[a], all *= double(bins_[a]);
    return all;
  };
  while (count() > 8.0 * double(patches_.size()) + 64) {
    const auto most = std::size_t(std::max_element(bins_.begin(), bins_.end()) - bins_.begin());
    bin_[most] *= 2;
  }
  in_bin_.assign(std::size_t(bins_[0] * bins_[1] * bins_[2]), {});
  for (std::size_t p = 0; p < patches_.size(); ++p) {
    const CellBox& b = patches_[p];
    for (Global z = b.lower[2] / bin_[2]; z <= (b.upper[2] - 1) / bin_[2]; ++z)
      for (Global y = b.lower[1] / bin_[1]; y <= (b.upper[1] - 1) / bin_[1]; ++y)
        for (Global x = b.lower[0] / bin_[0]; x <= (b.upper[0] - 1) / bin_[0]; ++x) {
          auto& bin = in_bin_[std::size_t(x + bins_[0] * (y + bins_[1] * z))];
          for (const std::uint32_t q : bin) {
            bool apart = false;
            for (std::size_t a = 0; a < 3; ++a)
              apart = apart || patches_[q].upper[a] <= b.lower[a] || b.upper[a] <= patches_[q].lower[a];
            require(apart, "two boxes overlap: cells from (", b.lower[0], ", ", b.lower[1], ", ", b.lower[2],
                    ") and from (", patches_[q].lower[0], ", ", patches_[q].lower[1], ", ", patches_[q].lower[2], ")");
          }
          bin.push_back(std::uint32_t(p));
        }
  }
}

Boxes Boxes::within(comm::Communicator comm, Domain domain, std::array<Global, 3> edge,
                    const std::function<bool(double, double, double)>& is_inside) {
  std::array<std::vector<Global>, 3> at;
  const bool by_rank = edge == std::array<Global, 3>{0, 0, 0};
  std::array<int, 3> parts = by_rank ? process_grid(comm.size(), domain) : std::array<int, 3>{1, 1, 1};
  for (int a = 0; a < 3; ++a) {
    const Global n = domain.cells(a);
    auto& v = at[std::size_t(a)];
    if (by_rank) {
      // Cuts at multiples of a power of two, as large as keeps the parts nearly equal.
      const int p = parts[std::size_t(a)];
      Global unit = 1;
      while (n % (2 * unit) == 0 && 8 * unit * p <= n) unit *= 2;
      const Global units = n / unit;
      for (int i = 0; i <= p; ++i) v.push_back(i == p ? n : units * i / p * unit);
    } else {
      const Global e = a < domain.dimensions ? edge[std::size_t(a)] : 1;
      require(e >= 1, "boxes of ", e, " cells along axis ", a, "; at least 1 is needed");
      for (Global i = 0; i < n; i += e) v.push_back(i);
      v.push_back(n);
    }
  }
  // Boxes in the order of Hilbert's curve, so that consecutive ones on a rank are neighbours.
  const auto boxes_along = [&](std::size_t a) { return checked_cast<Local>(at[a].size() - 1, "boxes along an axis"); };
  const Local nx = boxes_along(0), ny = boxes_along(1), nz = boxes_along(2);
  const auto order = by_rank   ? std::vector<Local>()
                     : nz == 1 ? layout::hilbert_order(nx, ny)
                               : layout::hilbert_order({nx, ny, nz});
  std::vector<CellBox> boxes;
  Global cells = 0;
  for (Global i = 0; i < Global(nx) * ny * nz; ++i) {
    const Global p = order.empty() ? i : order[std::size_t(i)];
    const auto x = std::size_t(p % nx), y = std::size_t(p / nx % ny), z = std::size_t(p / nx / ny);
    const CellBox b{{at[0][x], at[1][y], at[2][z]}, {at[0][x + 1], at[1][y + 1], at[2][z + 1]}};
    if (b.cells() == 0) continue;
    const auto middle = [&](std::size_t a) {
      return 0.5 * (domain.faces[a][std::size_t(b.lower[a])] + domain.faces[a][std::size_t(b.upper[a])]);
    };
    if (is_inside && !is_inside(middle(0), middle(1), middle(2))) continue;
    boxes.push_back(b), cells += b.cells();
  }
  std::vector<int> owners;
  Global before = 0;
  const int ranks = comm.size();
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    // A box's rank depends on the position of its middle in the sequence of all cells.
    const double middle = (double(before) + 0.5 * double(boxes[i].cells())) / double(cells);
    owners.push_back(by_rank && Global(boxes.size()) == ranks ? int(i) : std::min(ranks - 1, int(middle * ranks)));
    before += boxes[i].cells();
  }
  return Boxes(std::move(comm), std::move(domain), boxes, owners);
}

Boxes Boxes::whole(comm::Communicator comm, Domain domain, std::array<Global, 3> edge) {
  return within(std::move(comm), std::move(domain), edge, {});
}

int Boxes::ranks_in_use() const {
  int in_use = 0;
  for (std::size_t r = 0; r + 1 < first_.size(); ++r) in_use += first_[r] < first_[r + 1];
  return in_use;
}

bool Boxes::is_whole() const {
  return cells() == domain_.cells(0) * domain_.cells(1) * domain_.cells(2);
}

Boxes Boxes::gathered(int factor) const {
  std::vector<int> owners;
  for (const int r : owners_) owners.push_back(r / factor);
  Boxes merged(space_->comm(), domain_, patches_, owners);
  return Boxes(space_->comm(), domain_, merged.patches_, merged.owners_);
}

Boxes Boxes::coarsened(Domain coarse, const std::array<std::vector<Local>, 3>& parent, bool keep) const {
  const auto image = [&](std::size_t a, Global at) {  // of a cut position
    return at == domain_.cells(int(a)) ? coarse.cells(int(a)) : Global(parent[a][std::size_t(at)]);
  };
  std::vector<CellBox> boxes;
  for (const CellBox& b : patches_) {
    CellBox c;
    for (std::size_t a = 0; a < 3; ++a) c.lower[a] = image(a, b.lower[a]), c.upper[a] = image(a, b.upper[a]);
    boxes.push_back(c);
  }
  Boxes made(space_->comm(), coarse, boxes, owners_);
  if (keep)
    for (std::size_t a = 0; a < 3; ++a) {
      made.cuts_[a].clear();
      for (const Global at : cuts_[a]) made.cuts_[a].push_back(image(a, at));
    }
  return made;
}

Global Boxes::index(std::array<Global, 3> c) const {
  for (std::size_t a = 0; a < 3; ++a) {
    const Global n = domain_.cells(int(a));
    if (c[a] >= 0 && c[a] < n) continue;
    if (!domain_.periodic(int(a))) return -1;
    c[a] = (c[a] % n + n) % n;
  }
  const auto bin = std::size_t(c[0] / bin_[0] + bins_[0] * (c[1] / bin_[1] + bins_[1] * (c[2] / bin_[2])));
  for (const std::uint32_t p : in_bin_[bin]) {
    const CellBox& b = patches_[p];
    if (b.holds(c))
      return start_[p] + (c[0] - b.lower[0]) + b.size(0) * ((c[1] - b.lower[1]) + b.size(1) * (c[2] - b.lower[2]));
  }
  return -1;
}

std::array<Global, 3> Boxes::cell(Local i) const {
  for (std::size_t p = 0; p < count(); ++p) {
    const CellBox& b = own(p);
    const Global at = i - offset(p);
    if (at >= b.cells()) continue;
    return {b.lower[0] + at % b.size(0), b.lower[1] + at / b.size(0) % b.size(1),
            b.lower[2] + at / b.size(0) / b.size(1)};
  }
  throw Error(ErrorKind::usage, message("a rank of ", space_->local_size(), " cells has no cell ", i));
}

Halo Halo::build(const Boxes& boxes,
                 const std::function<bool(std::size_t, int, const std::array<Global, 3>&)>& needed) {
  Halo h;
  const auto& space = boxes.space();
  std::vector<Global> at;  // global index of each ghost, -1 where there is none
  for (std::size_t p = 0; p < boxes.count(); ++p) {
    const CellBox& b = boxes.own(p);
    for (int side = 0; side < 6; ++side) {
      h.start.push_back(at.size());
      const std::size_t axis = std::size_t(side / 2), u = axis == 0 ? 1 : 0, v = axis == 2 ? 1 : 2;
      if (int(axis) >= boxes.domain().dimensions) continue;
      std::array<Global, 3> c{};
      c[axis] = side % 2 == 0 ? b.lower[axis] - 1 : b.upper[axis];
      for (c[v] = b.lower[v]; c[v] < b.upper[v]; ++c[v])
        for (c[u] = b.lower[u]; c[u] < b.upper[u]; ++c[u])
          at.push_back(!needed || needed(p, side, c) ? boxes.index(c) : -1);
    }
  }
  h.start.push_back(at.size());
  std::vector<Global> remote;
  for (const Global i : at)
    if (i >= 0 && (i < space.begin() || i >= space.end())) remote.push_back(i);
  std::sort(remote.begin(), remote.end());
  remote.erase(std::unique(remote.begin(), remote.end()), remote.end());
  auto pattern = comm::Pattern::build(space.comm(), space.partition().offsets(), remote);
  h.source.reserve(at.size());
  for (const Global i : at) {
    if (i < 0) h.source.push_back(nothing);
    else if (i >= space.begin() && i < space.end()) h.source.push_back(Local(i - space.begin()));
    else h.source.push_back(Halo::remote(Local(std::lower_bound(remote.begin(), remote.end(), i) - remote.begin())));
  }
  h.pattern = std::make_shared<const comm::Pattern>(std::move(pattern));
  return h;
}

}  // namespace tacit::op
