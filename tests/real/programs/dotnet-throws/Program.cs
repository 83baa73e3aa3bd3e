// Exceptions that the CLR throws again from a cache: each leaves a native record behind, 4,010 in
// all (docs/formats/layouts.md). "ready" and "pong" as the other programs.
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

int caught = 0;
for (int i = 0; i < 3001; i++)
    try { Touch(); } catch (TypeInitializationException) { caught++; }
for (int i = 0; i < 1009; i++)
    try { RuntimeHelpers.RunClassConstructor(typeof(Broken).TypeHandle); }
    catch (TypeInitializationException) { caught++; }
for (int i = 0; i < 507; i++)
    try { Nowhere(); } catch (DllNotFoundException) { caught++; } // these leave none
if (caught != 3001 + 1009 + 507) throw new Exception($"{caught}");
GC.Collect();
Console.WriteLine("ready");
while (Console.ReadLine() != null) Console.WriteLine("pong");

[MethodImpl(MethodImplOptions.NoInlining)] static int Touch() => Broken.Value;
[DllImport("libthatisnowhere.so")] static extern int Nowhere();

static class Broken
{
    public static int Value = 1;
    static Broken() { throw new InvalidOperationException("first"); }
}
