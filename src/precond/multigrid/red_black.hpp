// A level with 7 points: fields on this rank's patches in red-black storage, and the passes over them.
#pragma once

#include "device_data.hpp"
#include "kernels.hpp"
#include "level.hpp"

#include <tacit/comm/exchange.hpp>
#include <tacit/exec/memory.hpp>
#include "exec/ahead.hpp"

#include <array>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace tacit::precond::mg {

template <class S>
class RedBlackLevel final : public Level<S> {
 public:
  /// slabs: fields have room for other ranks' planes, so that a wave needs one exchange (Slab). Collective.
  RedBlackLevel(std::shared_ptr<const op::FiniteVolume<S>> A, bool constant_allowed, bool slabs);

  void connect(Level<S>* coarse, std::array<std::vector<Local>, 3> parent, const Ways& ways) override;
  void run(std::span<const Step> steps) override;
  void smooth_whole(const MultigridOptions& options, int sweeps, bool from_zero) override;

  void load_f(std::span<const S> f) override { load(f, f_), f_beyond_ = 0; }
  void load_u(std::span<const S> u) override { load(u, u_); }
  void store_u(std::span<S> u) const override { store(u_, u); }
  void store_f(std::span<S> f) const override { store(f_, f); }
  void add_u(std::span<const S> u) override;
  void clear_u() override;
  void residual_to(std::span<S> r) override;
  void restrict_f() override;
  /// Linearly, with linear extrapolation at the ends, or by what Ways::full names.
  void interpolate_solution() override;
  /// False where a period of odd length joins cells of one colour.
  bool vanishes() const override { return !odd_seam_; }

  /// The level as arrays, after connect(). row_sums: also those of l1-jacobi. coefficients: false where the level only
  /// passes values on.
  LevelData<S> device_data(bool row_sums, bool coefficients = true) const;
  SolutionShare<S> solution_share(std::size_t patch, int axis, std::ptrdiff_t x) const;
  /// Where the cells stand in a field, in natural order.
  std::vector<std::int64_t> places() const;

 private:
  struct Patch {
    op::CellBox box;
    std::array<std::ptrdiff_t, 3> n{};
    int parity = 0;                                    // colour of its first cell
    std::ptrdiff_t half = 0, line = 0, plane = 0;      // strides
    std::ptrdiff_t offset = 0;                         // of cell line (0, 0)
    std::array<bool, 3> wrap{};                        // periodic within itself
    std::array<std::vector<std::ptrdiff_t>, 3> child;  // first child of each coarse cell, and the end
    std::array<std::vector<S>, 3> weight;              // of linear interpolation: of the neighbour, negative below
    std::array<std::vector<S>, 3> diagonal;            // constant coefficients: each axis' part of it
    std::vector<S> beyond;                             // the same of the planes that others own, those below first
  };
  // Ghosts of one colour, from here and from other ranks.
  struct Ghosts {
    std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> local;  // to, from
    std::vector<std::pair<std::ptrdiff_t, Local>> remote;          // to, ghost
    std::vector<std::ptrdiff_t> send;
    std::shared_ptr<comm::Exchange> exchange;
  };
  // Where every rank has a slab of whole planes: planes of the neighbours that a wave works on too, so that all its
  // steps need one exchange. Numbers are planes, from the first own one on.
  struct Slab {
    static constexpr std::ptrdiff_t planes = 8;  // on either side that there is room for
    struct Planes {
      std::vector<std::pair<Local, std::ptrdiff_t>> ghosts;  // number in what arrives, plane
      std::unique_ptr<comm::Exchange> exchange;              // of whole planes
    };
    bool below = false, above = false;      // somebody is there
    std::ptrdiff_t most = 0;                // planes on either side: no more than any rank has
    std::map<std::ptrdiff_t, Planes> some;  // by their number on either side
  };
  using Field = exec::Array<S, Host>;
  using Ahead = exec::Ahead;

  void tell_work(const Step& step) const;
  template <int D>
  void sweep_all(std::span<const Step> steps);
  struct Wave;
  template <int D>
  void wave(std::span<const Step> steps);
  template <int D>
  bool advance(Wave& w, std::ptrdiff_t t, std::ptrdiff_t J, bool& moved);
  void look_ahead(const Wave& w, Ahead& ahead, std::ptrdiff_t t, std::ptrdiff_t J, std::ptrdiff_t front) const;
  template <int D>
  void restrict_planes(const Patch& p, int colour, std::ptrdiff_t k, std::ptrdiff_t j0, std::ptrdiff_t j1);
  template <int D>
  void do_step(const Step& step, const Patch& p, std::ptrdiff_t k, std::ptrdiff_t j0, std::ptrdiff_t j1, Ahead& ahead);
  template <int D>
  void relax_line(const Patch& p, int colour, std::ptrdiff_t j, std::ptrdiff_t k, bool first);
  template <int D, bool Add>
  void residual_half(const Patch& p, int half, std::ptrdiff_t j, std::ptrdiff_t k, S* r);
  template <int D>
  void restrict_lines(const Patch& p, const Patch& c, int colour, std::ptrdiff_t kc, std::ptrdiff_t j0,
                      std::ptrdiff_t j1);
  void interpolate_line(const Patch& p, const Patch& c, int colours, std::ptrdiff_t j, std::ptrdiff_t k, bool solution);
  template <int D>
  void norm_line(const Patch& p, int colour, std::ptrdiff_t j, std::ptrdiff_t k);
  template <int D>
  void residual_field();
  Field inverse_row_sums() const;
  void exchange(int colour);
  /// Finds out whether all ranks have slabs. Collective.
  void find_slabs();
  void set_constant();
  void set_stored(std::size_t size);
  void find_ghosts();
  static std::ptrdiff_t place(const Patch& p, std::ptrdiff_t on_line);
  typename Slab::Planes& some_planes(std::ptrdiff_t count);
  /// So many planes of the neighbours on either side. Collective.
  void exchange_planes(Field& field, std::ptrdiff_t count);
  /// Planes beyond the own ones that each step of a wave works on; the first step reads one more if it reads
  /// neighbours.
  static std::array<std::ptrdiff_t, 32> beyond_of(std::span<const Step> steps);
  static bool reads_neighbours(const Step& step) {
    return step.work != Work::first_relax && step.work != Work::interpolate;
  }
  bool reaches(std::span<const Step> steps) const;
  S diagonal_of_plane(const Patch& p, std::ptrdiff_t k) const {
    if (k >= 0 && k < p.n[2]) return p.diagonal[2][std::size_t(k)];
    return p.beyond[std::size_t(k < 0 ? k + Slab::planes : k - p.n[2] + Slab::planes)];
  }
  void wrap_ends(const Patch& p, int half, S* line) const {
    if (!p.wrap[0]) return;
    const std::ptrdiff_t end = p.n[0] / 2;
    if (half == 0) line[0] = line[end];
    else line[p.half + end] = line[p.half];
  }
  void load(std::span<const S> from, Field& to);
  void store(const Field& from, std::span<S> to) const;
  std::ptrdiff_t at(const Patch& p, std::ptrdiff_t j, std::ptrdiff_t k) const {
    return p.offset + k * p.plane + j * p.line;
  }
  /// A line next to the patch stands at its other end where it is periodic in itself.
  static std::ptrdiff_t around(bool wrap, std::ptrdiff_t i, std::ptrdiff_t n) {
    return !wrap ? i : i < 0 ? i + n : i >= n ? i - n : i;
  }
  static int half_of(const Patch& p, int colour, std::ptrdiff_t j, std::ptrdiff_t k) {
    return 1 - int((colour + j + k + p.parity) & 1);
  }
  static std::ptrdiff_t first_of(int half) { return half == 0 ? 1 : 0; }
  static std::ptrdiff_t count_of(const Patch& p, int half) { return half == 0 ? p.n[0] / 2 : (p.n[0] + 1) / 2; }
  Around<S> around_of(const Patch& p, int half, std::ptrdiff_t j, std::ptrdiff_t k) const;
  Faces<S> faces_of(const Patch& p, int half, std::ptrdiff_t j, std::ptrdiff_t k) const;

  using Level<S>::a_;
  using Level<S>::report;
  RedBlackLevel* coarse_ = nullptr;
  int dimensions_ = 1;
  bool constant_ = false, odd_seam_ = false, independent_ = false, paired_ = false, linear_ = false;
  Weights<S> weights_{};
  std::vector<Patch> patches_;
  std::array<Ghosts, 2> ghosts_;
  std::unique_ptr<Slab> slab_;
  std::ptrdiff_t f_beyond_ = 0,
                 f_wanted_ = 0;  // of the slab: others' planes whose f is there; that a pass has asked for
  std::array<std::vector<Local>, 3> parent_;
  Field u_, f_, inverse_, cx_, cy_, cz_, r_, p_, inverse_l1_;
  std::vector<double> line_largest_, line_squares_;
  std::vector<std::size_t> first_line_;  // of each patch in these
};

}  // namespace tacit::precond::mg
