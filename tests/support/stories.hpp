#pragma once

#include <string>

#include "tests/support/temporary_folder.hpp"

namespace millrace::tests {

/// Writes text that a tiny model learns quickly: twelve files with `lines` lines each in `text` below the folder.
inline void write_stories(const TemporaryFolder& folder, int lines) {
  for (int file = 0; file < 12; ++file) {
    std::string text;
    for (int line = 0; line < lines; ++line) text += "line " + std::to_string(line * 7 % (file + 5)) + " of a small story\n";
    folder.write("text/" + std::to_string(file) + ".txt", text);
  }
}

}  // namespace millrace::tests
