#pragma once

namespace millrace::runtime {

/// The component that error messages of this folder name.
inline constexpr const char* schedule_component = "runtime.schedule";

}  // namespace millrace::runtime
