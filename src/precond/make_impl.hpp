// make over both memory spaces; instantiated by make.cpp (host) and, in builds with CUDA, for the device.
#pragma once

#include <tacit/precond/make.hpp>

// Made by CMake: all files of kinds/.
#include "kinds/all.hpp"

namespace tacit::precond {

template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make(std::string_view name, const op::Csr<T, M>& A, const Options& options) {
  return comm::collective(A.range().comm(), [&]() -> std::unique_ptr<op::Operator<T, M>> {
    const Kind kind = value_of<Kind>(name);
    check_values(precond::options(), options);
    check_taken(precond::options(), options, kinds(), name);
    switch (kind) {
#define TACIT_PRECOND(enumerator, ...) \
  case Kind::enumerator:               \
    return make_##enumerator<T, M>(A, options);
#include <tacit/precond/preconds.def>
    }
    return nullptr;
  });
}

}  // namespace tacit::precond
