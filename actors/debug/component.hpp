#pragma once

namespace millrace::actors {

/// Who speaks in the errors of the debugger.
inline constexpr const char* debugger = "millrace debug";

}  // namespace millrace::actors
