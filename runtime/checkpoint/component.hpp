#pragma once

namespace millrace::runtime {

/// The component that error messages of this folder name.
inline constexpr const char* checkpoint_component = "runtime.checkpoint";

}  // namespace millrace::runtime
