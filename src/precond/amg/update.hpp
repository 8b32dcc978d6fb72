// The numbers of P, of the adjoint of R, and of the next matrix again, in places that are kept: no search, no sorting.
#pragma once

#include "coarsening.hpp"
#include "numbered.hpp"
#include "strength.hpp"

#include "op/triple_product.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tacit::precond {

/// Places of the products of entries in P = S T and, for an A that is not Hermitian, in Q = (I - omega D^-H A_F^H) T.
template <Scalar T>
class SmoothingPlan {
 public:
  /// A's rows, of which only places count, with columns numbered by `halo`, and P and Q (null where A is Hermitian) as
  /// they have been made from them. Keeps a pointer to the filter. Collective.
  SmoothingPlan(const NumberedRows<T>& A, const Halo& halo, Smoothing<T> smoothing, const op::Rows<T>& P,
                const op::Rows<T>* Q);
  /// The values of P and Q, in the order of their entries. Collective: one exchange where there is a Q.
  struct Values {
    exec::Array<T, Host> P, Q;
  };
  Values smooth(const NumberedRows<T>& A, double omega) const;
  double bytes() const;

 private:
  /// Where the places of some rows begin.
  struct Block {
    Global P = 0, Q = 0;
    Local sent = 0;              // entries of S in columns of other ranks
    Local least = 0, most = -1;  // own columns in which S has entries
  };
  /// s t is added to this entry of Q, of numbers that other ranks have sent.
  struct Term {
    Global entry;
    Local s, t;
  };
  template <class F>
  T each_of_row(const NumberedRows<T>& A, Local i, double omega, std::vector<T>& scratch, F&& f) const;
  void take_lumping(std::vector<T> lumping, const Halo& halo);
  std::pair<std::size_t, std::size_t> count_terms(const NumberedRows<T>& A, const Halo& halo, op::Rows<T>& sent);
  void list_terms_of_others(const layout::Space& space, op::Rows<T> sent, const exec::Buffer<Global>& own_columns,
                            const op::Rows<T>& Q);
  exec::Array<T, Host> smooth_Q(const NumberedRows<T>& A, double omega, const std::vector<T>& diagonal,
                                const std::vector<T>& sent) const;
  template <class Place>
  void add_to_Q(const NumberedRows<T>& A, double omega, const std::vector<T>& t, const Place* places, Local first,
                Local last, exec::Array<T, Host>& Q) const;
  Local rows_ = 0, below_ = 0;  // ghosts that are below this rank's rows
  const std::vector<std::uint8_t>* filter_;
  std::vector<T> lumping_, inverse_of_lumping_;
  std::vector<Local> start_;  // of the rows of T, this rank's and then the halo's
  std::vector<T> t_;
  bool one_each_ = false;  // each row of T has one entry
  std::vector<Global> P_start_, Q_start_;
  op::Places P_, Q_;
  std::vector<Block> block_;
  std::vector<Term> term_;
  std::size_t terms_below_ = 0;  // of rows of lower ranks
  op::FetchedValues<T> fetched_;
  std::size_t sent_ = 0;  // entries of S in columns of other ranks
  bool has_Q_ = false;
};

/// sqrt |a_cc| of all columns, in the order of their numbers; 0 where there is no such entry. Collective: one exchange.
template <Scalar T>
std::vector<double> diagonal_roots(const NumberedRows<T>& rows, const Halo& halo, double& bound);

/// All that is kept of a level for new numbers.
template <Scalar T>
struct LevelPlan {
  /// `planned`: the triple product for a level's matrix A, which has these values. Collective.
  LevelPlan(op::TripleProductPlan<T> planned, std::span<const T> values, const layout::Space& space,
            Smoothing<T> smoothed, const Coarser<T>& coarser)
      : product(std::move(planned)),
        halo(space, product.others()),
        smoothing(numbered(values), halo, std::move(smoothed), coarser.P, coarser.Q ? &*coarser.Q : nullptr) {}
  NumberedRows<T> numbered(std::span<const T> values) const {
    return {product.row_starts(), product.columns(), values};
  }
  double bytes() const { return product.bytes() + smoothing.bytes() + double(halo.others().size()) * sizeof(Global); }

  op::TripleProductPlan<T> product;
  Halo halo;  ///< of the rows that the level's matrix refers to
  SmoothingPlan<T> smoothing;
};

}  // namespace tacit::precond
