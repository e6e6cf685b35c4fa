#pragma once

#include <functional>
#include <string>

namespace millrace::tools {

/// Throws Error(usage) if the path exists. An empty folder is accepted if a folder is to be created.
void want_nothing_at(const std::string& to, bool folder, const char* component);

/// Throws Error(usage) if there is such a file, or a link, unless `overwrite` (the option --overwrite) is given.
void want_overwrite(const std::string& file, bool overwrite, const char* component);

/// Creates a folder atomically: fill(`to`.tmp) writes its content under a temporary name, which is then renamed. Nothing is left
/// behind if it fails. Errors: those of `fill`, and Error(storage).
void write_whole_folder(const std::string& to, const char* component, const std::function<void(const std::string& place)>& fill);

}  // namespace millrace::tools
