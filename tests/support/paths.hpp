#pragma once

#include <string>

namespace millrace::tests {

/// The absolute path of a file or folder in the source tree ("tests/golden/hf_llama"), or of its root ("").
std::string source_path(const std::string& path = "");

/// The absolute path of a file or folder in the build tree ("millrace"), or of its root ("").
std::string build_path(const std::string& path = "");

}  // namespace millrace::tests
