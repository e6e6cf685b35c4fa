#include "tools/commands/atomic_folder.hpp"

#include <filesystem>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/io/file_system.hpp"

namespace millrace::tools {

void want_nothing_at(const std::string& to, bool folder, const char* component) {
  const auto kind = runtime::kind_of(to);
  if (kind == runtime::PathKind::missing) return;
  MILLRACE_CHECK(folder && kind == runtime::PathKind::directory, ExitCode::usage, component, "{}: exists already, expected a new {}", to,
                 folder ? "folder" : "file");
  const auto names = runtime::list_directory(to);
  MILLRACE_CHECK(names.empty(), ExitCode::usage, component, "{}: a folder with {} ({} …), expected an empty or a new one", to,
                 counted(names.size(), "entry"), names.front());
}

void want_overwrite(const std::string& file, bool overwrite, const char* component) {
  const auto kind = runtime::kind_of(file);
  MILLRACE_CHECK(overwrite || (kind != runtime::PathKind::file && kind != runtime::PathKind::link), ExitCode::usage, component,
                 "{} exists already; --overwrite replaces it", file);
}

void write_whole_folder(const std::string& to, const char* component, const std::function<void(const std::string& place)>& fill) {
  const std::string temporary = to + ".tmp";
  MILLRACE_CHECK(runtime::kind_of(temporary) == runtime::PathKind::missing, ExitCode::storage, component,
                 "{}: left by a killed command, or in use by a running one; remove it if none is running", temporary);
  runtime::make_directories(temporary);
  try {
    fill(temporary);
    runtime::sync_directory(temporary);
    runtime::rename_path(temporary, to);
  } catch (const Error&) {
    std::error_code ignored;  // the first error is the one to report
    std::filesystem::remove_all(temporary, ignored);
    throw;
  }
  runtime::sync_directory(runtime::parent_path(to));
}

}  // namespace millrace::tools
