#include "tests/support/paths.hpp"

namespace millrace::tests {

std::string source_path(const std::string& path) { return path.empty() ? MILLRACE_SOURCE_DIR : MILLRACE_SOURCE_DIR "/" + path; }

std::string build_path(const std::string& path) { return path.empty() ? MILLRACE_BINARY_DIR : MILLRACE_BINARY_DIR "/" + path; }

}  // namespace millrace::tests
