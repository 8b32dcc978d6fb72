#include "symbolic.hpp"

#include <algorithm>
#include <utility>

namespace tacit::precond {
namespace {

using layout::LocalGraph;

std::vector<Local> inverse_of(const std::vector<Local>& order) {
  std::vector<Local> place(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) place[std::size_t(order[k])] = Local(k);
  return place;
}

/// Calls f(j) for the neighbours j of vertex k, in the numbers of the order.
template <class F>
void for_neighbours(const LocalGraph& g, const std::vector<Local>& order, const std::vector<Local>& place, Local k,
                    const F& f) {
  const auto old = std::size_t(order[std::size_t(k)]);
  for (Global e = g.start[old]; e < g.start[old + 1]; ++e) f(place[std::size_t(g.column[std::size_t(e)])]);
}

/// The elimination tree: the parent of each vertex, -1 of a root. Paths are shortened as they are walked.
std::vector<Local> tree_of(const LocalGraph& g, const std::vector<Local>& order) {
  const auto place = inverse_of(order);
  std::vector<Local> parent(order.size(), -1), ancestor(order.size(), -1);
  for (Local k = 0; k < Local(order.size()); ++k)
    for_neighbours(g, order, place, k, [&](Local j) {
      while (j != -1 && j < k) {
        const Local next = std::exchange(ancestor[std::size_t(j)], k);
        if (next == -1) parent[std::size_t(j)] = k;
        j = next;
      }
    });
  return parent;
}

/// The vertices such that each follows its children, and subtrees are contiguous.
std::vector<Local> postorder(const std::vector<Local>& parent) {
  const auto n = Local(parent.size());
  std::vector<Local> child(parent.size(), -1), sibling(parent.size(), -1), post, path;
  Local root = -1;
  for (Local k = n - 1; k >= 0; --k) {
    Local& first = parent[std::size_t(k)] == -1 ? root : child[std::size_t(parent[std::size_t(k)])];
    sibling[std::size_t(k)] = std::exchange(first, k);
  }
  post.reserve(parent.size());
  for (; root != -1; root = sibling[std::size_t(root)]) {
    path.assign(1, root);
    while (!path.empty()) {
      const Local k = path.back();
      if (const Local next = std::exchange(child[std::size_t(k)], -1); next != -1) {
        // All children at once, the last on top, would turn their order round: it does not matter for the counts.
        for (Local c = next; c != -1; c = sibling[std::size_t(c)]) path.push_back(c);
      } else {
        post.push_back(k), path.pop_back();
      }
    }
  }
  return post;
}

/// The entries of each column of the Cholesky factor, the diagonal included, for a postordered tree.
std::vector<Global> column_counts(const LocalGraph& g, const std::vector<Local>& order,
                                  const std::vector<Local>& parent) {
  const auto n = Local(order.size());
  const auto place = inverse_of(order);
  std::vector<Local> first(order.size(), -1), leaf(order.size(), -1), latest(order.size(), -1), set(order.size());
  std::vector<Global> count(order.size());
  for (Local k = 0; k < n; ++k) {
    count[std::size_t(k)] = first[std::size_t(k)] == -1 ? 1 : 0;
    for (Local j = k; j != -1 && first[std::size_t(j)] == -1; j = parent[std::size_t(j)]) first[std::size_t(j)] = k;
    set[std::size_t(k)] = k;
  }
  const auto find = [&](Local j) {
    Local root = j;
    while (set[std::size_t(root)] != root) root = set[std::size_t(root)];
    while (j != root) j = std::exchange(set[std::size_t(j)], root);
    return root;
  };
  for (Local j = 0; j < n; ++j) {
    const Local above = parent[std::size_t(j)];
    if (above != -1) --count[std::size_t(above)];
    for_neighbours(g, order, place, j, [&](Local i) {
      // Is j a leaf of the subtree of the rows that meet row i?
      if (i <= j || first[std::size_t(j)] <= latest[std::size_t(i)]) return;
      latest[std::size_t(i)] = first[std::size_t(j)];
      ++count[std::size_t(j)];
      if (const Local before = std::exchange(leaf[std::size_t(i)], j); before != -1) --count[std::size_t(find(before))];
    });
    if (above != -1) set[std::size_t(j)] = above;
  }
  for (Local j = 0; j < n; ++j)
    if (parent[std::size_t(j)] != -1) count[std::size_t(parent[std::size_t(j)])] += count[std::size_t(j)];
  return count;
}

}  // namespace

Elimination elimination(const LocalGraph& symmetric, std::vector<Local> order) {
  const auto post = postorder(tree_of(symmetric, order));
  Elimination e;
  e.order.reserve(order.size());
  for (const Local k : post) e.order.push_back(order[std::size_t(k)]);
  for (const Global below : column_counts(symmetric, e.order, tree_of(symmetric, e.order))) {
    const double c = double(below) - 1;  // without the diagonal
    e.entries += 2 * c + 1;
    e.flops += c + 2 * c * c;
  }
  return e;
}

}  // namespace tacit::precond
