! Poisson's equation on the unit square, from Fortran: poisson [POINTS-A-SIDE [METHOD [PRECONDITIONER]]]
!
!   ./poisson 200 cg amg            or            mpiexec -n 4 ./poisson 200 ca-gmres jacobi
!
! -u_xx - u_yy = f with u = 0 on the boundary; f is such that u = sin(pi x) sin(pi y).
program poisson
  use tacit
  implicit none
  type(c_ptr) :: comm, A, P, solver, result
  integer(c_int64_t), allocatable :: start(:), column(:)
  real(c_double), allocatable, target :: value(:), b(:), x(:)
  real(c_double) :: h, pi, error, u
  integer(c_int64_t) :: n, first, rows, i, r, k
  integer :: rank, ranks
  character(64) :: argument(3)

  argument = ["200", "cg ", "amg"]
  do r = 1, min(command_argument_count(), 3)
    call get_command_argument(int(r), argument(r))
  end do
  read (argument(1), *) n
  call check(tacit_comm_world(comm))
  rank = tacit_comm_rank(comm)
  ranks = tacit_comm_size(comm)

  ! This rank's rows of the five-point matrix, and its part of b.
  first = n * n * rank / ranks
  rows = n * n * (rank + 1) / ranks - first
  allocate (start(rows + 1), column(5 * rows), value(5 * rows), b(rows), x(rows))
  h = 1 / real(n + 1, c_double)
  pi = acos(-1.0_c_double)
  k = 0
  start(1) = 0
  do r = 1, rows
    i = first + r - 1
    call put(i >= n, i - n, -1.0_c_double)
    call put(mod(i, n) > 0, i - 1, -1.0_c_double)
    call put(.true., i, 4.0_c_double)
    call put(mod(i, n) < n - 1, i + 1, -1.0_c_double)
    call put(i < n * (n - 1), i + n, -1.0_c_double)
    start(r + 1) = k
    b(r) = 2 * pi**2 * h**2 * exact(i)
    x(r) = 0
  end do

  call check(tacit_matrix(comm, TACIT_DOUBLE, int(rows, c_int32_t), start, column, c_loc(value), A))
  call check(tacit_precond(A, argument(3), "", P))
  call check(tacit_solver_new(argument(2), "rtol=1e-8", solver))
  call check(tacit_solve(solver, A, P, c_loc(b), c_loc(x), result))

  error = 0
  do r = 1, rows
    u = exact(first + r - 1)
    error = max(error, abs(x(r) - u))
  end do
  if (rank == 0) then
    print "(i0, a, i0, 3a, i0, a)", n * n, " unknowns on ", ranks, " rank(s): ", tacit_result_reason(result), " after ", &
      tacit_result_iterations(result), " iterations"
    print "(a, es8.1, a, es8.1)", "||b - A x|| / ||b|| = ", tacit_result_residual_norm(result), &
      " (recomputed), largest error on rank 0 = ", error
  end if
  if (tacit_result_converged(result) /= 1) stop 3
  call tacit_result_free(result)
  call tacit_solver_free(solver)
  call tacit_operator_free(P)
  call tacit_operator_free(A)
  call tacit_comm_free(comm)

contains

  real(c_double) function exact(i)
    integer(c_int64_t), intent(in) :: i
    exact = sin(pi * h * (mod(i, n) + 1)) * sin(pi * h * (i / n + 1))
  end function

  subroutine put(inside, to, entry)
    logical, intent(in) :: inside
    integer(c_int64_t), intent(in) :: to
    real(c_double), intent(in) :: entry
    if (.not. inside) return
    k = k + 1
    column(k) = to
    value(k) = entry
  end subroutine

  ! All ranks get the same status.
  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status == TACIT_OK) return
    if (rank == 0) print "(2a)", "poisson: ", tacit_error()
    stop 1
  end subroutine

end program
