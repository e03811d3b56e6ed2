#pragma once

#include <sys/utsname.h>

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

// Results of benchmarks in C++, as benchmarks/measure.py writes those in Python.
namespace tilewright {

inline std::string utc(const char* format) {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, format, std::gmtime(&now));
  return text;
}

inline std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  utsname host{};
  uname(&host);
  return host.machine;
}

// Writes `folder`/`name`-<date>.json and .md: the head with date and processor, and the rows, objects with equal keys.
inline void write_results(const std::string& folder, const std::string& name, const nlohmann::ordered_json& facts,
                          const nlohmann::ordered_json& rows) {
  const auto shown = [](const nlohmann::ordered_json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_number_float()) return value.dump();
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", value.get<double>());
    return std::string(text);
  };
  nlohmann::ordered_json out = {{"date", utc("%Y-%m-%d %H:%M")}, {"cpu", processor()}};
  out.update(facts);
  std::string table = "# " + name + "\n\n";
  for (const auto& [key, value] : out.items()) table += "- " + key + ": " + shown(value) + "\n";
  std::string head = "\n|", line = "|";
  for (const auto& [key, value] : rows.at(0).items()) head += " " + key + " |", line += " --- |";
  table += head + "\n" + line + "\n";
  for (const auto& row : rows) {
    table += "|";
    for (const auto& [key, value] : row.items()) table += " " + shown(value) + " |";
    table += "\n";
  }
  out["rows"] = rows;
  const std::string path = folder + "/" + name + "-" + utc("%Y-%m-%d-%H%M");
  std::ofstream(path + ".json") << out.dump(1) << "\n";
  std::ofstream(path + ".md") << table;
}

}  // namespace tilewright
