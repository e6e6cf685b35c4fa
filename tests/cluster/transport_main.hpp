#pragma once

#include <memory>

#include "cluster/links/transport.hpp"

namespace millrace::cluster {

/// Runs all tests of a program with this transport, which exists while they run. Returns the program's exit status.
[[nodiscard]] int run_with_transport(int argc, char** argv, std::unique_ptr<Transport>& transport);

}  // namespace millrace::cluster
