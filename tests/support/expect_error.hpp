#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/check.hpp"

namespace millrace::tests {

/// Runs `action`, expects an Error with this code whose message contains all `parts`, and returns the message.
template <class Action>
std::string expect_error(Action action, ExitCode code, const std::vector<std::string>& parts) {
  try {
    action();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << message;
    for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << "expected \"" << part << "\" in: " << message;
    return message;
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
}

}  // namespace millrace::tests
