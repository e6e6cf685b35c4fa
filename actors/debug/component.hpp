#pragma once

namespace millrace::actors {

/// The component name in the debugger's errors.
inline constexpr const char* debugger = "millrace debug";

}  // namespace millrace::actors
