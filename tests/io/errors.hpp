// The error of a call.
#pragma once

#include <tacit/base/error.hpp>

#include <gtest/gtest.h>

#include <string>

namespace tacit::io::test {

/// The message of the Error of this kind that call() throws; "accepted" if it throws none.
template <class Call>
std::string error_of(Call&& call, ErrorKind kind = ErrorKind::input) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "accepted";
}

}  // namespace tacit::io::test
