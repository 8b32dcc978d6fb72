# TACIT_SCALARS, TACIT_DEVICE_SCALARS: the scalars of solves in host memory and in device memory. The sources read them from
# include/tacit/base/scalars.hpp. Builds for tests have fewer, which compile faster.
set(tacit_all_scalars "float;double;complex<float>;complex<double>")
set(TACIT_SCALARS "${tacit_all_scalars}" CACHE STRING "Scalars of solves, out of ${tacit_all_scalars}")
set(TACIT_DEVICE_SCALARS "${TACIT_SCALARS}" CACHE STRING "Scalars of solves in device memory, out of TACIT_SCALARS")

# tacit_define_scalars(VARIABLE MEMORY): checks the list and gives its sum to the sources of the library and its users.
function(tacit_define_scalars variable memory)
  set(sum 0)
  foreach(scalar IN LISTS ${variable})
    list(FIND tacit_all_scalars "${scalar}" place)
    if(place EQUAL -1)
      message(FATAL_ERROR "${variable} has \"${scalar}\"; expected a list out of ${tacit_all_scalars}")
    endif()
    if(NOT scalar IN_LIST TACIT_SCALARS)
      message(FATAL_ERROR "${variable} has ${scalar}, and TACIT_SCALARS does not: what is on a device is made in host memory")
    endif()
    math(EXPR sum "${sum} | (1 << ${place})")
  endforeach()
  if(NOT "double" IN_LIST ${variable})
    message(FATAL_ERROR "${variable}=${${variable}} lacks double, in which orderings, shifts and factors are computed")
  endif()
  if(NOT sum EQUAL 15)
    target_compile_definitions(tacit PUBLIC TACIT_SCALARS_${memory}=${sum})
  endif()
endfunction()

tacit_define_scalars(TACIT_SCALARS Host)
tacit_define_scalars(TACIT_DEVICE_SCALARS Device)
# Preconditioners of double store their numbers in float, those of complex<double> in complex<float>.
if(NOT "float" IN_LIST TACIT_SCALARS OR ("complex<double>" IN_LIST TACIT_SCALARS AND NOT "complex<float>" IN_LIST TACIT_SCALARS))
  message(FATAL_ERROR "TACIT_SCALARS=${TACIT_SCALARS} has a scalar without its single precision, in which preconditioners are stored. "
    "One of these: float;double  float;double;complex<float>  ${tacit_all_scalars}")
endif()
