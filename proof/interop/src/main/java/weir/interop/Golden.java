package weir.interop;

import com.google.gson.JsonElement;
import com.google.gson.JsonParser;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The golden vectors: bytes from .hex, values from .json as maps, lists, strings and BigIntegers (exact and comparable).
 */
final class Golden
{
    private Golden()
    {
    }

    static List<String> names(final Path folder) throws IOException
    {
        try (Stream<Path> files = Files.list(folder))
        {
            return files.map(file -> file.getFileName().toString())
                .filter(name -> name.endsWith(".hex"))
                .map(name -> name.substring(0, name.length() - ".hex".length()))
                .sorted()
                .collect(Collectors.toList());
        }
    }

    static byte[] bytes(final Path folder, final String name) throws IOException
    {
        final String digits = Files.readAllLines(folder.resolve(name + ".hex")).stream()
            .filter(line -> !line.startsWith("#"))
            .collect(Collectors.joining())
            .replaceAll("\\s", "");
        return HexFormat.of().parseHex(digits);
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> values(final Path folder, final String name) throws IOException
    {
        return (Map<String, Object>)plain(JsonParser.parseString(Files.readString(folder.resolve(name + ".json"))));
    }

    static String hex(final byte[] bytes)
    {
        return HexFormat.of().formatHex(bytes);
    }

    private static Object plain(final JsonElement json)
    {
        if (json.isJsonObject())
        {
            final Map<String, Object> map = new LinkedHashMap<>();
            json.getAsJsonObject().entrySet().forEach(entry -> map.put(entry.getKey(), plain(entry.getValue())));
            return map;
        }
        if (json.isJsonArray())
        {
            final List<Object> list = new ArrayList<>();
            json.getAsJsonArray().forEach(element -> list.add(plain(element)));
            return list;
        }
        return json.getAsJsonPrimitive().isNumber() ? json.getAsBigInteger() : json.getAsString();
    }
}
