#pragma once

namespace millrace::runtime {

/// The component that error messages of this folder name.
inline constexpr const char* tokenize_component = "tokenize";

}  // namespace millrace::runtime
