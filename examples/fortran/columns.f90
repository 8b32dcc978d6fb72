! Two right-hand sides at once, and JSON in and out: columns [REQUEST]
program columns
  use tacit
  implicit none
  type(c_ptr) :: comm, A, result
  integer(c_int64_t) :: start(4) = [0, 2, 5, 7], column(7) = [0, 1, 0, 1, 2, 1, 2]
  real(c_double), target :: value(7) = [2, -1, -1, 2, -1, -1, 2], b(3, 2), x(3, 2)
  character(200) :: request
  integer(c_int) :: i

  request = '{"method": "cg", "precond": "jacobi"}'
  if (command_argument_count() > 0) call get_command_argument(1, request)
  b = reshape([1, 2, 3, 0, 1, 0], [3, 2])
  x = 0
  call check(tacit_comm_self(comm))
  call check(tacit_matrix(comm, TACIT_DOUBLE, 3_c_int32_t, start, column, c_loc(value), A))
  call check(tacit_solve_json(A, request, 2_c_int32_t, c_loc(b), c_loc(x), result))
  print "(a)", tacit_result_json(result)
  do i = 1, tacit_result_columns(result)
    print "(a, i0, 2a, 3f8.4)", "column ", i, ": ", tacit_result_reason(tacit_result_column(result, i - 1)), x(:, i)
  end do
  call tacit_result_free(result)
  call tacit_operator_free(A)
  call tacit_comm_free(comm)

contains

  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status == TACIT_OK) return
    print "(2a)", "columns: ", tacit_error()
    stop 1
  end subroutine

end program columns
