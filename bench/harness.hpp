// Shared by the benchmarks: KEY=VALUE arguments, medians, and results as JSON.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// Splits "a,b,c" at the commas; an empty text gives an empty list.
inline std::vector<std::string> cut(const std::string& text, char at = ',') {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Arguments KEY=VALUE with known keys. Those of `usual` have default values, those of `possible` may be absent.
class Words {
 public:
  Words(std::initializer_list<std::pair<const std::string, std::string>> usual,
        std::initializer_list<const char*> possible = {})
      : said_(usual), possible_(possible.begin(), possible.end()) {}

  /// Reads words[first] and all that follow; at an unknown word the program ends with status 2.
  void take(int count, char** words, int first = 1) {
    for (int i = first; i < count; ++i) {
      const std::string word = words[i], key = word.substr(0, word.find('='));
      if (key.size() == word.size() || !knows(key)) {
        std::fprintf(stderr, "%s: what is %s? There are", words[0], words[i]);
        for (const auto& [name, value] : said_) std::fprintf(stderr, " %s=%s", name.c_str(), value.c_str());
        for (const auto& name : possible_)
          if (!has(name)) std::fprintf(stderr, " %s=", name.c_str());
        std::fprintf(stderr, "\n");
        std::exit(2);
      }
      said_[key] = word.substr(key.size() + 1);
    }
  }

  /// Adds a key that may be absent.
  void allow(const std::string& key) { possible_.push_back(key); }

  bool has(const std::string& key) const { return said_.count(key) > 0; }
  const std::string& operator[](const std::string& key) const { return said_.at(key); }
  double number(const std::string& key) const { return std::atof(said_.at(key).c_str()); }
  double number(const std::string& key, double otherwise) const { return has(key) ? number(key) : otherwise; }
  /// The parts of a value that is a list.
  std::vector<std::string> list(const std::string& key) const { return cut(said_.at(key)); }
  std::vector<int> numbers(const std::string& key) const {
    std::vector<int> all;
    for (const auto& part : list(key)) all.push_back(std::atoi(part.c_str()));
    return all;
  }
  bool lists(const std::string& key, const std::string& what) const {
    for (const auto& part : list(key))
      if (part == what) return true;
    return false;
  }

 private:
  bool knows(const std::string& key) const {
    if (has(key)) return true;
    for (const auto& name : possible_)
      if (name == key) return true;
    return false;
  }
  std::map<std::string, std::string> said_;
  std::vector<std::string> possible_;
};

/// The median of a nonempty list.
inline double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const std::size_t half = v.size() / 2;
  return v.size() % 2 ? v[half] : (v[half - 1] + v[half]) / 2;
}

/// The objects of a JSON list.
class Rows {
 public:
  /// Adds an object, printed from its parts.
  template <class... Part>
  void add(const Part&... part) {
    text_ << (text_.tellp() > 0 ? ",\n  " : "  ");
    (text_ << ... << part);
  }
  /// Writes the list to a file; nothing where `path` is empty.
  void write(const std::string& path) const {
    if (!path.empty()) std::ofstream(path) << "[\n" << text_.str() << "\n]\n";
  }

 private:
  std::ostringstream text_;
};

}  // namespace bench
