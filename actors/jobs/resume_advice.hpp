#pragma once

#include <string>

namespace millrace::actors {

/// For the end of a message about a lost process: whether the same command resumes the run, and where. It looks at the run directory when
/// it is called and returns within a tenth of a second, whatever the file system does. `directory`: run.directory; may be empty.
[[nodiscard]] std::string resume_advice(const std::string& directory);

}  // namespace millrace::actors
