#pragma once

#include <cctype>
#include <string>
#include <vector>

namespace millrace::tests {

/// Describes what makes a text malformed XML; empty if nothing does: one root, tags closed in order, quoted and unique
/// attributes, no stray < or &. Sufficient for our own files: no comments, no declarations. Expat would be one more package
/// to build with, for this alone.
inline std::string xml_fault(const std::string& text) {
  std::vector<std::string> open;
  std::size_t at = 0;
  int roots = 0;
  const auto fault = [&](const std::string& what) { return what + " at byte " + std::to_string(at); };
  const auto entities_are_good = [](const std::string& part) {
    for (std::size_t i = part.find('&'); i != std::string::npos; i = part.find('&', i + 1)) {
      bool known = false;
      for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;"})
        known = known || part.compare(i, std::string(entity).size(), entity) == 0;
      if (!known) return false;
    }
    return true;
  };
  while (at < text.size()) {
    const std::size_t tag = std::min(text.find('<', at), text.size());
    const std::string between = text.substr(at, tag - at);
    if (!entities_are_good(between) || between.find('>') != std::string::npos) return fault("a stray letter");
    if (open.empty() && between.find_first_not_of(" \n") != std::string::npos) return fault("text outside of the root");
    if (tag == text.size()) break;
    at = tag + 1;
    const bool closes = at < text.size() && text[at] == '/';
    at += closes;
    std::size_t stop = at;
    while (stop < text.size() && (std::isalnum(static_cast<unsigned char>(text[stop])) != 0)) ++stop;
    const std::string name = text.substr(at, stop - at);
    at = stop;
    if (name.empty()) return fault("a tag without a name");
    std::vector<std::string> attributes;
    while (at < text.size() && text[at] == ' ') {
      const std::size_t equals = text.find("=\"", ++at);
      if (equals == std::string::npos) return fault("an attribute without a value");
      const std::string key = text.substr(at, equals - at);
      if (key.empty() || key.find_first_of(" <>&\"'/") != std::string::npos) return fault("an attribute \"" + key + "\"");
      for (const auto& other : attributes)
        if (other == key) return fault("a second " + key);
      attributes.push_back(key);
      const std::size_t end = text.find('"', equals + 2);
      if (end == std::string::npos) return fault("a value without an end");
      const std::string value = text.substr(equals + 2, end - equals - 2);
      if (!entities_are_good(value) || value.find('<') != std::string::npos) return fault("a stray letter in a value");
      at = end + 1;
    }
    const bool empty = text.compare(at, 2, "/>") == 0;
    if (!empty && (at >= text.size() || text[at] != '>')) return fault("a tag without an end");
    at += empty ? 2 : 1;
    if (closes) {
      if (empty || open.empty() || open.back() != name) return fault("</" + name + "> closes nothing");
      open.pop_back();
    } else {
      roots += open.empty();
      if (!empty) open.push_back(name);
    }
  }
  if (!open.empty()) return "<" + open.back() + "> is not closed";
  return roots == 1 ? "" : "not one root";
}

}  // namespace millrace::tests
