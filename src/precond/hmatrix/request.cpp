#include <tacit/precond/hmatrix/request.hpp>
#include <tacit/precond/make.hpp>

namespace tacit::precond {

std::span<const Described> hmatrix_kinds() {
  static constexpr Described all[] = {
      {"none", "", "no preconditioner", ""},
      {"jacobi", "absolute", "divides by the diagonal", ""},
      {"block-jacobi", "size precision", "inverts the near field of clusters", ""},
      {"hlu", "tolerance rank leaf_size factors precision",
       "approximate triangular factors in hierarchical form: the strong one, a direct solver where its tolerance is "
       "small",
       "Grasedyck, Hackbusch (2003), doi 10.1007/s00607-003-0019-1"},
      {"inner", "method iterations rtol precond rank tolerance",
       "a few iterations of a method, of an H-matrix on a coarse copy (by default of rank one, as in the paper, scaled "
       "by its diagonal): for bicgstab, and gmres with side flexible; also of any other operator, which is not copied",
       "Ida, Iwashita, Mifune, Takahashi (2016), doi 10.1109/TMAG.2015.2464104"}};
  return all;
}

std::span<const Option<HMatrixRequest>> hmatrix_options() {
  using O = HMatrixRequest;
  using K = krylov::Options;
  auto methods = names<krylov::Method>();
  std::erase(methods, to_string(krylov::Method::automatic));
  auto preconds = names<Kind>();
  for (const auto& kind : hmatrix_kinds())
    if (std::find(preconds.begin(), preconds.end(), kind.name) == preconds.end()) preconds.emplace_back(kind.name);
  static const std::vector<Option<O>> all{
      option<O>("absolute", &O::absolute, "by the magnitude of the diagonal"),
      option<O>("size", &O::size, at_least(1, "point"), "points of a cluster whose block is inverted, at most"),
      option<O>("tolerance", &O::tolerance, not_negative(),
                "hlu: low-rank blocks are cut here at each step, relative to their norm, in (0, 1); inner: the coarse "
                "copy's keep what is above this part of their norm"),
      option<O>("rank", &O::rank, at_least(0, "term (0: any number)"),
                "low-rank blocks are taken with at most so many terms", "hlu: as they are; inner: 1"),
      option<O>("leaf_size", &O::leaf_size, at_least(1, "row"), "clusters of at most so many rows are not cut",
                "64 to 512, by the ranks"),
      option<O>("factors", &O::factors,
                "L U, or L L^H of a matrix stored as hermitian, at half the cost; auto: the latter where the diagonal "
                "is positive, and L U if it fails"),
      option<O>("precision", &O::precision,
                "of the factors, which are approximate anyway; auto: single where the tolerance allows it"),
      option<O>("method", &O::method, std::move(methods), "of the iterations").with_options_of("solve"),
      option<O>("iterations", within(&O::solve, &K::max_iterations), at_least(1, "iteration"),
                "at most so many for each solve"),
      option<O>("rtol", within(&O::solve, &K::rtol),
                Range{.least = 0, .most = 1, .open_above = true, .needed = "a number >= 0 and below 1"},
                "a solve ends earlier where its residual has fallen by this"),
      option<O>("precond", &O::precond, std::move(preconds), "of the iterations", "jacobi for an H-matrix, else none")
          .with_options_of("precond"),
  };
  return all;
}

krylov::Options HMatrixRequest::inner() const {
  auto o = solve;
  o.method = value_of<krylov::Method>(method);
  krylov::check(o);
  return o;
}

void check(const HMatrixRequest& request, std::string_view name) {
  check_values(hmatrix_options(), request);
  check_taken(hmatrix_options(), request, hmatrix_kinds(), name);
}

}  // namespace tacit::precond
