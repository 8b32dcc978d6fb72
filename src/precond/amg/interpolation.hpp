// Interpolation of fine points from coarse ones.
#pragma once

#include "splitting.hpp"

#include <vector>

namespace tacit::precond {

/// What a level's interpolation is made from.
template <Scalar T>
struct Splitting {
  const op::Rows<T>& rows;
  const Graph& strong;
  const std::vector<Local>& kind;  ///< of the halo, see kinds_of()
  const std::vector<Part>& part;   ///< of the halo
  const CoarsePoints& coarse;
};

/// Rows of P: a coarse point has a 1, a fine one the weights w_ij with which e_i = sum_j w_ij e_j for smooth errors e.
/// Errors of kind -1 are zero, and couplings with other kinds are left out. Rows keep their `most` largest weights
/// (0: all), multiplied so that their sum stays. Sums over entries are in the order of global indices, so that the bits
/// do not depend on ranks or threads. Local.
///
/// direct: w_ij = -alpha a_ij / a_ii for the coarse points j that i depends on, alpha = the sum of the couplings of the
/// other sign than a_ii over that of those with these j; couplings of the same sign are added to a_ii. Rows of fine
/// points that depend on no coarse one are empty. Source: Stueben (2001), doi 10.1016/S0377-0427(00)00516-1.
template <Scalar T>
op::Rows<T> direct_interpolation(const Splitting<T>& s, int most);

/// direct where i depends on coarse points; then in passes, w_i = -alpha / a_ii sum_k a_ik w_k over the points k that i
/// depends on and that have got their weights before. Collective; one exchange of rows in each pass.
/// Source: Stueben (1999); Yang (2010), doi 10.1002/nla.689.
template <Scalar T>
op::Rows<T> multipass_interpolation(const Splitting<T>& s, int most);

/// From the coarse points C_i that i depends on, or that a fine point on which i depends depends on:
/// w_ij = -1 / d_i (a_ij + sum_k a_ik b_kj / b_k), b_k = sum of b_kl over l in C_i and l = i, d_i = a_ii + the
/// couplings that are in neither sum + sum_k a_ik b_ki / b_k; k: the fine points that i depends on; b_kl = a_kl where
/// its sign is not that of a_kk, else 0; a_ik goes to d_i where b_k is 0. Where d_i has the other sign than a_ii, or
/// weights would sum to more than 10, d_i = a_ii. Collective; one exchange of rows. Source: De Sterck, Falgout,
/// Nolting, Yang (2008), doi 10.1002/nla.544 (extended+i).
template <Scalar T>
op::Rows<T> extended_interpolation(const Splitting<T>& s, int most);

}  // namespace tacit::precond
