! Tacit for Fortran: the functions of tacit/c/tacit.h, with Fortran's strings. Compile this file with the program, since
! module files are of one compiler; link as for C.
!
!   use tacit
!   type(c_ptr) :: comm, A, P, solver, result
!   call check(tacit_comm_from_fortran(MPI_COMM_WORLD, comm))
!   call check(tacit_matrix(comm, TACIT_DOUBLE, n, start, column, c_loc(value), A))
!   call check(tacit_precond(A, "amg", "smoother=chebyshev", P))
!   call check(tacit_solver_new("cg", "rtol=1e-8", solver))
!   call check(tacit_solve(solver, A, P, c_loc(b), c_loc(x), result))
!
! Every function returns a status; tacit_error() is the text of the last one that was not TACIT_OK. Handles are
! type(c_ptr); c_null_ptr is "none". Rows and columns are numbered from 0, and start(1) is 0, as in C. Vectors are passed
! as c_loc() of arrays with the attribute target, of the scalar of the operator.
module tacit
  use, intrinsic :: iso_c_binding
  implicit none
  private

  integer(c_int), parameter, public :: TACIT_OK = 0, TACIT_USAGE = 1, TACIT_INPUT = 2, TACIT_ENVIRONMENT = 3, &
                                       TACIT_INTERRUPTED = 4, TACIT_MEMORY = 5, TACIT_INTERNAL = 6
  integer(c_int), parameter, public :: TACIT_FLOAT = 0, TACIT_DOUBLE = 1, TACIT_COMPLEX_FLOAT = 2, &
                                       TACIT_COMPLEX_DOUBLE = 3

  public :: c_ptr, c_null_ptr, c_loc, c_funloc, c_int, c_int32_t, c_int64_t, c_float, c_double
  public :: c_float_complex, c_double_complex
  public :: tacit_comm_self, tacit_comm_world, tacit_comm_from_fortran, tacit_comm_rank, tacit_comm_size, tacit_comm_free
  public :: tacit_matrix, tacit_rectangular_matrix, tacit_matrix_update, tacit_function, tacit_precond, tacit_operator_apply
  public :: tacit_operator_local_rows, tacit_operator_rows, tacit_operator_null_space, tacit_operator_free
  public :: tacit_solver_new, tacit_solver_set, tacit_solver_monitor, tacit_solver_free
  public :: tacit_solve, tacit_solve_columns, tacit_solve_automatic, tacit_solve_json, tacit_least_squares
  public :: tacit_result_met, tacit_result_gradient_norm
  public :: tacit_result_converged, tacit_result_iterations, tacit_result_residual_norm, tacit_result_b_norm
  public :: tacit_result_seconds, tacit_result_reductions, tacit_result_products, tacit_result_precond_applies
  public :: tacit_result_reason, tacit_result_detail, tacit_result_advice, tacit_result_method, tacit_result_precond
  public :: tacit_result_columns, tacit_result_column, tacit_result_json, tacit_result_free
  public :: tacit_error, tacit_version_text, tacit_name_of_method, tacit_name_of_precond

  ! Forms that several functions of C have.
  abstract interface
    integer(c_int) function new_comm(comm) bind(c)
      import
      type(c_ptr), intent(out) :: comm
    end function
    integer(c_int) function int_of(handle) bind(c)
      import
      type(c_ptr), value :: handle
    end function
    integer(c_int64_t) function long_of(handle) bind(c)
      import
      type(c_ptr), value :: handle
    end function
    real(c_double) function real_of(handle) bind(c)
      import
      type(c_ptr), value :: handle
    end function
    type(c_ptr) function letters_of(handle) bind(c)
      import
      type(c_ptr), value :: handle
    end function
    type(c_ptr) function letters_at(i) bind(c)
      import
      integer(c_int), value :: i
    end function
    type(c_ptr) function letters() bind(c)
      import
    end function
    subroutine frees(handle) bind(c)
      import
      type(c_ptr), value :: handle
    end subroutine
  end interface

  procedure(new_comm), bind(c, name="tacit_comm_self") :: tacit_comm_self
  procedure(new_comm), bind(c, name="tacit_comm_world") :: tacit_comm_world
  procedure(int_of), bind(c, name="tacit_comm_rank") :: tacit_comm_rank
  procedure(int_of), bind(c, name="tacit_comm_size") :: tacit_comm_size
  procedure(frees), bind(c, name="tacit_comm_free") :: tacit_comm_free
  procedure(long_of), bind(c, name="tacit_operator_rows") :: tacit_operator_rows
  procedure(frees), bind(c, name="tacit_operator_free") :: tacit_operator_free
  procedure(frees), bind(c, name="tacit_solver_free") :: tacit_solver_free
  procedure(int_of), bind(c, name="tacit_result_converged") :: tacit_result_converged  ! 1 or 0, as in C
  procedure(int_of), bind(c, name="tacit_result_iterations") :: tacit_result_iterations
  procedure(real_of), bind(c, name="tacit_result_residual_norm") :: tacit_result_residual_norm
  procedure(real_of), bind(c, name="tacit_result_b_norm") :: tacit_result_b_norm
  procedure(real_of), bind(c, name="tacit_result_seconds") :: tacit_result_seconds
  procedure(long_of), bind(c, name="tacit_result_reductions") :: tacit_result_reductions
  procedure(long_of), bind(c, name="tacit_result_products") :: tacit_result_products
  procedure(long_of), bind(c, name="tacit_result_precond_applies") :: tacit_result_precond_applies
  procedure(real_of), bind(c, name="tacit_result_gradient_norm") :: tacit_result_gradient_norm
  procedure(int_of), bind(c, name="tacit_result_columns") :: tacit_result_columns
  procedure(frees), bind(c, name="tacit_result_free") :: tacit_result_free

  procedure(letters), bind(c, name="tacit_last_error") :: c_last_error
  procedure(letters), bind(c, name="tacit_version") :: c_version
  procedure(letters_at), bind(c, name="tacit_method_name") :: c_method_name
  procedure(letters_at), bind(c, name="tacit_precond_name") :: c_precond_name
  procedure(letters_of), bind(c, name="tacit_result_reason") :: c_result_reason
  procedure(letters_of), bind(c, name="tacit_result_detail") :: c_result_detail
  procedure(letters_of), bind(c, name="tacit_result_advice") :: c_result_advice
  procedure(letters_of), bind(c, name="tacit_result_method") :: c_result_method
  procedure(letters_of), bind(c, name="tacit_result_precond") :: c_result_precond
  procedure(letters_of), bind(c, name="tacit_result_json") :: c_result_json
  procedure(letters_of), bind(c, name="tacit_result_met") :: c_result_met

  interface
    ! handle: a communicator of `use mpi`, or comm%MPI_VAL of `use mpi_f08`.
    integer(c_int) function tacit_comm_from_fortran(handle, comm) bind(c)
      import
      integer(c_int), value :: handle
      type(c_ptr), intent(out) :: comm
    end function

    integer(c_int) function tacit_matrix(comm, scalar, rows, start, column, value, A) bind(c)
      import
      type(c_ptr), value :: comm, value
      integer(c_int), value :: scalar
      integer(c_int32_t), value :: rows
      integer(c_int64_t), intent(in) :: start(*), column(*)
      type(c_ptr), intent(out) :: A
    end function
    integer(c_int) function tacit_rectangular_matrix(comm, scalar, rows, columns, start, column, value, A) bind(c)
      import
      type(c_ptr), value :: comm, value
      integer(c_int), value :: scalar
      integer(c_int32_t), value :: rows, columns
      integer(c_int64_t), intent(in) :: start(*), column(*)
      type(c_ptr), intent(out) :: A
    end function
    integer(c_int) function tacit_matrix_update(A, count, value) bind(c)
      import
      type(c_ptr), value :: A, value
      integer(c_int64_t), value :: count
    end function
    ! apply: c_funloc() of `integer(c_int) function f(context, x, y) bind(c)` with three type(c_ptr), value.
    integer(c_int) function tacit_function(comm, scalar, rows, apply, context, diagonal, A) bind(c)
      import
      type(c_ptr), value :: comm, context, diagonal
      integer(c_int), value :: scalar
      integer(c_int32_t), value :: rows
      type(c_funptr), value :: apply
      type(c_ptr), intent(out) :: A
    end function
    integer(c_int) function tacit_operator_apply(A, x, y) bind(c)
      import
      type(c_ptr), value :: A, x, y
    end function
    integer(c_int32_t) function tacit_operator_local_rows(A) bind(c)
      import
      type(c_ptr), value :: A
    end function
    integer(c_int) function tacit_operator_null_space(A, count, right) bind(c)
      import
      type(c_ptr), value :: A, right
      integer(c_int), value :: count
    end function

    ! monitor: c_funloc() of `integer(c_int) function f(context, iteration, residual_norm) bind(c)`, or c_null_funptr.
    integer(c_int) function tacit_solver_monitor(solver, monitor, context) bind(c)
      import
      type(c_ptr), value :: solver, context
      type(c_funptr), value :: monitor
    end function
    integer(c_int) function tacit_solve(solver, A, P, b, x, result) bind(c)
      import
      type(c_ptr), value :: solver, A, P, b, x
      type(c_ptr), intent(out) :: result
    end function
    integer(c_int) function tacit_solve_automatic(solver, A, b, x, result) bind(c)
      import
      type(c_ptr), value :: solver, A, b, x
      type(c_ptr), intent(out) :: result
    end function

    integer(c_int) function tacit_solve_columns(solver, A, P, columns, b, x, result) bind(c)
      import
      type(c_ptr), value :: solver, A, P, b, x
      integer(c_int32_t), value :: columns
      type(c_ptr), intent(out) :: result
    end function

    ! i: from 0, as in C.
    type(c_ptr) function tacit_result_column(result, i) bind(c)
      import
      type(c_ptr), value :: result
      integer(c_int), value :: i
    end function
  end interface

  ! Of C, with its strings.
  interface
    integer(c_int) function c_precond(A, name, options, P) bind(c, name="tacit_precond")
      import
      type(c_ptr), value :: A
      character(kind=c_char), intent(in) :: name(*), options(*)
      type(c_ptr), intent(out) :: P
    end function
    integer(c_int) function c_solver_new(method, options, solver) bind(c, name="tacit_solver_new")
      import
      character(kind=c_char), intent(in) :: method(*), options(*)
      type(c_ptr), intent(out) :: solver
    end function
    integer(c_int) function c_solver_set(solver, name, value) bind(c, name="tacit_solver_set")
      import
      type(c_ptr), value :: solver
      character(kind=c_char), intent(in) :: name(*), value(*)
    end function
    integer(c_int) function c_solve_json(A, request, columns, b, x, result) bind(c, name="tacit_solve_json")
      import
      type(c_ptr), value :: A, b, x
      character(kind=c_char), intent(in) :: request(*)
      integer(c_int32_t), value :: columns
      type(c_ptr), intent(out) :: result
    end function
    integer(c_int) function c_least_squares(A, options, columns, b, x, result) bind(c, name="tacit_least_squares")
      import
      type(c_ptr), value :: A, b, x
      character(kind=c_char), intent(in) :: options(*)
      integer(c_int32_t), value :: columns
      type(c_ptr), intent(out) :: result
    end function
    integer(c_size_t) function c_strlen(text) bind(c, name="strlen")
      import
      type(c_ptr), value :: text
    end function
  end interface

contains

  integer(c_int) function tacit_precond(A, name, options, P) result(status)
    type(c_ptr), intent(in) :: A
    character(*), intent(in) :: name, options
    type(c_ptr), intent(out) :: P
    status = c_precond(A, trim(name) // c_null_char, trim(options) // c_null_char, P)
  end function

  integer(c_int) function tacit_solver_new(method, options, solver) result(status)
    character(*), intent(in) :: method, options
    type(c_ptr), intent(out) :: solver
    status = c_solver_new(trim(method) // c_null_char, trim(options) // c_null_char, solver)
  end function

  integer(c_int) function tacit_solver_set(solver, name, value) result(status)
    type(c_ptr), intent(in) :: solver
    character(*), intent(in) :: name, value
    status = c_solver_set(solver, trim(name) // c_null_char, trim(value) // c_null_char)
  end function

  integer(c_int) function tacit_solve_json(A, request, columns, b, x, result) result(status)
    type(c_ptr), intent(in) :: A, b, x
    character(*), intent(in) :: request
    integer(c_int32_t), intent(in) :: columns
    type(c_ptr), intent(out) :: result
    status = c_solve_json(A, trim(request) // c_null_char, columns, b, x, result)
  end function

  integer(c_int) function tacit_least_squares(A, options, columns, b, x, result) result(status)
    type(c_ptr), intent(in) :: A, b, x
    character(*), intent(in) :: options
    integer(c_int32_t), intent(in) :: columns
    type(c_ptr), intent(out) :: result
    status = c_least_squares(A, trim(options) // c_null_char, columns, b, x, result)
  end function

  ! The text of the last status that was not TACIT_OK.
  function tacit_error() result(text)
    character(:), allocatable :: text
    text = text_of(c_last_error())
  end function

  function tacit_version_text() result(text)
    character(:), allocatable :: text
    text = text_of(c_version())
  end function

  ! The i-th method or preconditioner, from 0; "" past the last.
  function tacit_name_of_method(i) result(text)
    integer(c_int), intent(in) :: i
    character(:), allocatable :: text
    text = text_of(c_method_name(i))
  end function
  function tacit_name_of_precond(i) result(text)
    integer(c_int), intent(in) :: i
    character(:), allocatable :: text
    text = text_of(c_precond_name(i))
  end function

  function tacit_result_reason(result) result(text)
    type(c_ptr), intent(in) :: result
    character(:), allocatable :: text
    text = text_of(c_result_reason(result))
  end function
  function tacit_result_detail(result) result(text)
    type(c_ptr), intent(in) :: result
    character(:), allocatable :: text
    text = text_of(c_result_detail(result))
  end function
  function tacit_result_advice(result) result(text)
    type(c_ptr), intent(in) :: result
    character(:), allocatable :: text
    text = text_of(c_result_advice(result))
  end function
  function tacit_result_method(result) result(text)
    type(c_ptr), intent(in) :: result
    character(:), allocatable :: text
    text = text_of(c_result_method(result))
  end function
  function tacit_result_precond(result) result(text)
    type(c_ptr), intent(in) :: result
    character(:), allocatable :: text
    text = text_of(c_result_precond(result))
  end function
  function tacit_result_json(result) result(text)
    type(c_ptr), intent(in) :: result
    character(:), allocatable :: text
    text = text_of(c_result_json(result))
  end function

  function tacit_result_met(result) result(text)
    type(c_ptr), intent(in) :: result
    character(:), allocatable :: text
    text = text_of(c_result_met(result))
  end function

  function text_of(from) result(text)
    type(c_ptr), intent(in) :: from
    character(:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    if (.not. c_associated(from)) then
      text = ""
      return
    end if
    call c_f_pointer(from, letters, [c_strlen(from)])
    allocate (character(size(letters)) :: text)
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function

end module tacit
