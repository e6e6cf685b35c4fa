#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/paths.hpp"
#include "tests/tools/text.hpp"

namespace millrace::tests {
namespace {

/// Calls `action` with the first group of every match; returns the number of matches.
int each(const std::string& text, const std::string& pattern, const std::function<void(const std::string&)>& action) {
  const std::regex regex(pattern);
  int count = 0;
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match, ++count) action((*match)[1].str());
  return count;
}

/// The documentation pages, by their path from the root.
std::vector<std::string> pages() {
  std::vector<std::string> pages{"README.md", "tests/README.md"};
  for (const auto& entry : std::filesystem::directory_iterator(source_path("docs")))
    if (entry.path().extension() == ".md") pages.push_back("docs/" + entry.path().filename().string());
  return pages;
}

bool exists(const std::string& path) { return std::filesystem::exists(source_path(path)); }

/// All sources that are compiled into the program, concatenated.
std::string sources() {
  std::string text;
  for (const char* room : {"kernels", "runtime", "layers", "cluster", "actors", "configs", "tools"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source_path(room)))
      if (entry.path().extension() == ".cpp" || entry.path().extension() == ".hpp") text += read_file(entry.path().string());
  return text;
}

TEST(Pages, NameFilesThatExist) {
  int names = 0;
  for (const auto& page : pages()) {
    const auto text = read_source(page);
    names += each(text,
                  "`(?:\\./)?((?:kernels|runtime|layers|cluster|actors|configs|tools|tests|examples|benchmarks|docs|cmake|\\.ci)/[\\w./]*)",
                  [&](const std::string& path) {
                    // The pages about adding a layer and an optimizer name files that would be added.
                    if (path.find("squared_relu") != std::string::npos || path.find("/lion") != std::string::npos) return;
                    EXPECT_TRUE(exists(path)) << page << " names " << path;
                  });
    const auto folder = std::filesystem::path(page).parent_path();
    each(text, "\\]\\(([\\w./]+)\\)",
         [&](const std::string& path) { EXPECT_TRUE(exists((folder / path).string())) << page << " has a link to " << path; });
  }
  EXPECT_GT(names, 100);
}

TEST(Pages, NameKeysThatExist) {
  const auto keys = read_source("docs/keys.md");
  int names = 0;
  for (const auto& page : pages())
    names += each(read_source(page),
                  "[` ]((?:run|model|data|train|evaluate|pipeline|checkpoint|rematerialize|cluster|status|sample)\\.[a-z_]+)[`=]",
                  [&](const std::string& key) {
                    if (key == "model.safetensors" || key == "run.toml") return;  // names of files, not keys
                    EXPECT_NE(keys.find("| `" + key + "` |"), std::string::npos) << page << " names " << key;
                  });
  EXPECT_GT(names, 50);
}

TEST(Pages, NameFunctionsThatExist) {
  const auto code = sources();
  int names = 0;
  const auto found = [&](const std::string& text) { return code.find(text) != std::string::npos; };
  for (const char* page : {"README.md", "docs/architecture.md", "docs/life_of_a_microbatch.md"}) {
    const auto text = read_source(page);
    names += each(text, "`([A-Z]\\w+::\\w+)", [&](const std::string& name) {
      const auto type = name.substr(0, name.find(':')), member = name.substr(name.rfind(':') + 1);
      const bool nested = found("class " + name + " ");
      EXPECT_TRUE(nested || ((found("class " + type + " ") || found("struct " + type + " ")) && found(" " + member + "(")))
          << page << " names " << name;
    });
    names += each(text, "`([a-z]\\w+)\\(\\)`",
                  [&](const std::string& name) { EXPECT_TRUE(found(" " + name + "(")) << page << " names " << name; });
  }
  EXPECT_GT(names, 40);
}

TEST(AddingALayer, ShowsTheCodeOfItsExample) {
  const auto page = read_source("docs/adding_a_layer.md");
  const auto sources = read_source("examples/add_a_layer.cpp") + read_source("tests/layers/activity_family.hpp") +
                       read_source("tests/layers/streams_family.hpp");
  const auto blocks = code_blocks(page, "cpp");
  for (const auto& code : blocks)
    EXPECT_NE(sources.find(code), std::string::npos) << "neither in examples/add_a_layer.cpp nor in the families of tests/layers:\n"
                                                     << code;
  EXPECT_EQ(blocks.size(), 9U);
}

TEST(Schedules, HaveASectionAndAPictureEach) {
  std::string names;
  each(read_source("docs/keys.md"), "`pipeline\\.schedule` \\| one of ([^|]*)", [&](const std::string& choices) { names += choices; });
  const auto page = read_source("docs/schedules.md");
  const int count = each(names, "([\\w-]+)", [&](const std::string& name) {
    EXPECT_NE(page.find("\n### " + name + "\n"), std::string::npos) << "docs/schedules.md has no section of " << name;
    EXPECT_NE(page.find("(pictures/" + name + ".svg)"), std::string::npos) << "docs/schedules.md has no picture of " << name;
  });
  EXPECT_GT(count, 10);
}

TEST(Numerics, NamesTestsThatExist) {
  const auto page = read_source("docs/numerics.md");
  std::string tests;
  EXPECT_GT(each(page, "`(tests/[a-z_/]+\\.cpp)`",
                 [&](const std::string& path) {
                   EXPECT_NE(read_source(path), "") << path;
                   tests += read_source(path);
                 }),
            10);
  EXPECT_GT(each(page, "cpp`: ([A-Z][A-Za-z]+)",
                 [&](const std::string& name) { EXPECT_NE(tests.find(", " + name + ")"), std::string::npos) << name; }),
            8);
}

}  // namespace
}  // namespace millrace::tests
